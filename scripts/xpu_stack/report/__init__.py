"""What a checkout holds: the table of `make status`, mails, pull requests.

May import: core, build.
"""
