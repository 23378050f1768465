"""A run as one HTML page that asks nothing of any network.

    page.html     the template: the first screen needs no script; user text in it is escaped
    *.css, *.js   the only style and script, allowed by their sha256 in the page's Content-Security-Policy
    data blocks   the samples, gzipped JSON in base64: nothing in them is markup; unpacked when they are looked at

The invariant: the same run, and the same baseline and gates, give the same bytes (with the same build of zlib).
"""
