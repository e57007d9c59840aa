"""What a checkout holds: `make status`, mails, pull requests, and who sends them.

May import: core, build.
"""
