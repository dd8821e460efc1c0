"""Skills: where the folders of skills lie, how they move and are recognised, and what is wrong with them."""
