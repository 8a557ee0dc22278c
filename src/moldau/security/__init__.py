"""Who may do what: principals, operations, mechanisms."""
