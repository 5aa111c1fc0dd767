# SPDX-License-Identifier: Apache-2.0
"""Annotations from Python, for runtimes that do not call opmeter.h themselves: finds Opmeter's table
in the process by ctypes. Without a profiler every call does nothing. Copy it beside your program:

    import opmeter_annotate as opmeter
    graph = opmeter.graph("my model")
    for _ in range(100):
        with opmeter.run(graph):
            module.run()

    opmeter record -o my.opm -- python3 my_program.py
"""

import contextlib
import ctypes

_NOTHING = ctypes.CFUNCTYPE(None)


class _Api(ctypes.Structure):
    """The beginning of struct opm_api in opmeter.h, whose members never move."""
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("graph_declare", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_char_p)),
        ("op_declare", ctypes.c_void_p),
        ("op_push", ctypes.CFUNCTYPE(None, ctypes.c_uint32)),
        ("op_pop", _NOTHING),
        ("kernel_begin", _NOTHING),
        ("kernel_end", _NOTHING),
        ("span_start", ctypes.c_void_p),
        ("span_end", ctypes.c_void_p),
        ("run_begin", ctypes.CFUNCTYPE(None, ctypes.c_uint32)),
        ("run_end", _NOTHING),
    ]


def _find():
    try:
        get = ctypes.CDLL(None).opm_api_v1
    except AttributeError:
        return None
    get.restype = ctypes.POINTER(_Api)
    table = get()
    return table.contents if table else None


_api = _find()


def graph(name):
    """Declares a model; runs name it."""
    return _api.graph_declare(name.encode()) if _api else 0


@contextlib.contextmanager
def run(of_graph):
    """One execution of a graph on this thread."""
    if not _api:
        yield
        return
    _api.run_begin(of_graph)
    try:
        yield
    finally:
        _api.run_end()
