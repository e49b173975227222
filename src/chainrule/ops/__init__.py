"""The operations, one statement each; `families` states what operations of one kind share."""
