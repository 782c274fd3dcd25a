#!/usr/bin/env python3
"""A check for `slipway minify`: does torch.onnx.export take a program? Exit 0 when it does, else 1 and the innermost
error as the last line of stderr.

    check_onnx_export.py FILE.pt2                 # imports torch, 3 seconds
    check_onnx_export.py --serve SOCKET           # imports it once and forks for each request
    check_onnx_export.py --connect SOCKET FILE.pt2
"""

import os
import socket
import sys
import threading


def export(path):
    import torch  # the client of a server does not need it

    program = torch.export.load(path)
    try:
        torch.onnx.export(program, dynamo=True, verbose=False)
    except Exception as error:  # whatever it raises is the answer
        while error.__cause__ is not None:
            error = error.__cause__
        lines = str(error).strip().splitlines() or [""]
        print(f"{type(error).__name__}: {lines[0]}", file=sys.stderr)
        return 1
    return 0


def end_with(connection):
    """A client that was killed wants no answer."""
    if not connection.recv(1):
        os._exit(1)


def serve(path):
    import torch  # noqa: F401
    import torch.onnx._internal.exporter._registration as registration

    torch.set_num_threads(1)
    registration.ONNXRegistry.from_torchlib()  # imports onnxscript's operators
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(16)
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            # The client's stderr comes as a descriptor; the answer is one byte.
            request, descriptors, _, _ = socket.recv_fds(connection, 65536, 2)
            os.dup2(descriptors[0], 1)
            os.dup2(descriptors[1], 2)
            threading.Thread(target=end_with, args=(connection,), daemon=True).start()
            code = 70
            try:
                code = export(request.decode())
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
            sys.stderr.flush()
            connection.sendall(bytes([code]))
            os._exit(0)
        connection.close()
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break


def connect(path, model):
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    socket.send_fds(client, [os.path.abspath(model).encode()], [1, 2])
    answer = client.recv(1)
    return answer[0] if answer else 70


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    elif sys.argv[1] == "--connect":
        sys.exit(connect(sys.argv[2], sys.argv[3]))
    else:
        sys.exit(export(sys.argv[1]))
