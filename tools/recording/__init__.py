"""Makes the recording in the README: `make recording` runs a real session and writes one SVG.

`session.py` has the story. `terminal.py` runs programs in pseudo-terminals and knows what is on
their screens, `recorder.py` notes each change of them with its time, and `film.py` draws the
changes as an SVG that plays by itself, without a script.
"""
