"""The pure core: it decides, and never waits, reads a clock, draws a random number or touches a socket.

A call of the API is a generator. It yields effects (:mod:`.effects`), such as "connect", "transfer these bytes" or
"pause for
0.2 s", and is sent what came of them. :class:`edgesync.Client` performs the effects with blocking sockets and
:class:`edgesync.AsyncClient` with asyncio, so both behave in the same way, and the tests perform them with a script.
"""
