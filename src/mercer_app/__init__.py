"""What people and files ask of the library: tables on disk, the command, reports, servers, exports.

It is built on :mod:`mercer`, which does not depend on it.
"""
