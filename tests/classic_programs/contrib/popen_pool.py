from tvm.contrib.popen_pool import PopenPoolExecutor, PopenWorker, StatusKind


def square(x):
    return x * x


def inverse(x):
    return 12 // x


if __name__ == "__main__":
    worker = PopenWorker()
    worker.send(square, [7])
    assert worker.recv() == 49
    worker.kill()
    pool = PopenPoolExecutor(max_workers=1, timeout=60)
    assert pool.submit(square, 5).result() == 25
    found = list(pool.map_with_error_catching(inverse, [3, 0]))
    assert [r.status for r in found] == [StatusKind.COMPLETE, StatusKind.EXCEPTION]
    assert found[0].value == 4 and isinstance(found[1].value, ZeroDivisionError)
