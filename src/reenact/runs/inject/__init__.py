"""Not imported from here: the folder is put on the path of every Python below a run."""
