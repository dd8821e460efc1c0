"""Changes: the live file, who agrees to change it, and how it is changed and changed back."""
