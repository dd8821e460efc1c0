alter table run add column judge text not null default ''; -- the backend that was named for the role judge, if any
