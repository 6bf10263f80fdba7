"""What people and files ask of the library: tables on disk, the command, reports, servers, exports.

It stands on :mod:`mercer`, which knows nothing of it.
"""
