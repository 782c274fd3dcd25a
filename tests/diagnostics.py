"""What slipway's errors say, for tests and scripts. Needs the standard library only."""


def cause(stderr):
    """The line that says what went wrong: the last that begins with error[ID], else the last of all."""
    lines = stderr.strip().splitlines() or ["said nothing"]
    return next((line for line in reversed(lines) if line.startswith("error[")), lines[-1])
