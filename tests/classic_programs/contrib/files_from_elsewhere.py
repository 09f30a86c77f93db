from pathlib import Path

from tvm.contrib import utils
from tvm.contrib.download import download, download_testdata

folder = utils.tempdir()
source = Path(folder.relpath("labels.txt"))
source.write_text("cat\ndog\n")
target = folder.relpath("copy.txt")
download(source.as_uri(), target, overwrite=False)
assert Path(target).read_text() == "cat\ndog\n"
source.write_text("bird\n")
download(source.as_uri(), target)
assert Path(target).read_text() == "cat\ndog\n"
download(source.as_uri(), target, overwrite=True)
assert Path(target).read_text() == "bird\n"
assert callable(download_testdata)
try:
    download((Path(folder.temp_dir) / "nothing.bin").as_uri(), folder.relpath("nothing.bin"), retries=1)
except Exception as error:
    assert "nothing.bin" in str(error)
else:
    raise AssertionError("there is no such file")
