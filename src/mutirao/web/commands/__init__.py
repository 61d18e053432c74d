"""What the forms of pages have done: to jobs that are named, to all that match, to other things."""
