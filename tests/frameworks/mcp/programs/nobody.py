"""A URL at which nobody listens."""

import asyncio

from client import connected


def shown(error):
    if isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}[{', '.join(map(shown, error.exceptions))}]"
    return f"{type(error).__name__}: {error}"


async def main():
    try:
        async with connected():
            print("never here")
    except BaseException as error:
        print(shown(error))


asyncio.run(main())
