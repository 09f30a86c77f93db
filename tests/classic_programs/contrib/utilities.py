import os

from tvm.contrib import cc, tar, utils

tmp = utils.tempdir()
path = tmp.relpath("a.txt")
with open(path, "w") as file:
    file.write("text")
assert tmp.listdir() == ["a.txt"] and os.path.isdir(tmp.temp_dir)
tar.tar(tmp.relpath("a.tar"), [path])
tar.untar(tmp.relpath("a.tar"), tmp.relpath("out"))
assert os.path.exists(tmp.relpath("out/a.txt"))
lock = utils.filelock(tmp.relpath("lock"))
lock.release()
assert cc.get_cc() is None or isinstance(cc.get_cc(), str)
assert utils.is_source_path("x.cc") and not utils.is_source_path("x.o")
assert isinstance(cc.get_target_by_dump_machine("cc")(), str) if cc.get_cc() else True
