"""Direct use of the source on air, whatever it is.

`borrowing` lends it for as long as a block lasts, `demand` has a successor take over on request,
and `upstream` holds what an application sends until there is a source to take it.
"""
