"""A cluster of two nodes on this machine, and jobs whose deeds can be counted afterwards."""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
from pathlib import Path


class TwoNodes:
    """A head and a second node of Ray, one processor each; this process is connected."""

    def __init__(self):
        import ray
        from ray._private.utils import get_ray_address_file
        from ray.cluster_utils import Cluster

        # Ray notes where its cluster is in a folder that it does not make where none of its own is used.
        Path(get_ray_address_file(None)).parent.mkdir(parents=True, exist_ok=True)
        self.ray, self.folder = ray, tempfile.mkdtemp(prefix="askwell-", dir="/tmp")  # sockets need short names
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        head = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False, "temp_dir": self.folder}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.second = None
        self.whole()
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR")

    @property
    def address(self):
        return self.cluster.address

    def whole(self):
        """Both nodes; the second one anew if it was killed."""
        if self.second is not None and self.second.any_processes_alive():
            if not self.second.dead_processes():
                return
            self.cluster.remove_node(self.second, allow_graceful=False)
        self.second = self.cluster.add_node(num_cpus=1, object_store_memory=100 << 20)

    def end(self):
        self.ray.shutdown()
        self.cluster.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- jobs: each leaves a file for each time that it was begun --------------------------------------------------------


def begun(folder):
    """How often each job was begun, by place."""
    counts = {}
    for path in Path(folder).glob("begun-*"):
        place = int(path.name.split("-")[1])
        counts[place] = counts.get(place, 0) + 1
    return counts


def mark(folder, place):
    (Path(folder) / f"begun-{place}-{uuid.uuid4().hex}").touch()


def hinted(job, tell, hint):
    if job == 3:
        raise ValueError("three is too many")
    tell([job, hint])
    tell([os.getpid(), os.environ["ASKWELL_THREADS"]])


def killed_once(job, tell):
    """The process of the job that is called so is killed, the first time."""
    folder, place, victim = job
    mark(folder, place)
    if place == victim and begun(folder)[place] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    tell(place * place)


def node_killed(job, tell):
    """The first job on this node kills it, all its processes at once."""
    import ray

    folder, place, node = job
    mark(folder, place)
    killed, end = Path(folder) / "killed", time.monotonic() + 60
    if ray.get_runtime_context().get_node_id() == node and not killed.exists():
        killed.write_text(str(place))
        kill_family(os.getppid())
    while not killed.exists() and time.monotonic() < end:  # a busy machine takes seconds to start a worker there
        time.sleep(0.05)
    tell(place * place)


def kill_family(parent):
    """A process and its children, of which this is one."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for pid in (parent, *sorted(map(int, children), key=lambda pid: pid == os.getpid())):
        os.kill(pid, signal.SIGKILL)


def always_dies(job, tell):
    os._exit(1)


def hangs(job, tell):
    if job == "hang":
        time.sleep(600)
    tell(os.getpid())


class Heavy:
    """What leaves a file each time that it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __setstate__(self, state):
        self.__dict__.update(state)
        (Path(self.folder) / f"loaded-{os.getpid()}-{uuid.uuid4().hex}").touch()

    def __call__(self, job, tell):
        tell(os.getpid())


class Unloadable:
    def __reduce__(self):
        return int, ("not a number",)

    def __call__(self, job, tell):
        tell(job)


class Unsent:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, job, tell):
        tell(job)


def begun_and_waits(folder, job, tell):
    mark(folder, job)
    if job:
        time.sleep(60)
    tell(job)


def interrupted(folder):
    """Starts Ray here, and is interrupted in the middle of it; a program of its own."""
    from functools import partial

    from askwell.engines import Ray

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background may have it ignored

    def told(place, message):
        os.kill(os.getpid(), signal.SIGINT)

    threads = os.environ.get("ASKWELL_THREADS")
    with contextlib.suppress(KeyboardInterrupt):
        Ray(workers=2).run(partial(begun_and_waits, folder), [0, 1, 2], told=told)
    import ray

    assert not ray.is_initialized()
    assert os.environ.get("ASKWELL_THREADS") == threads
    print("interrupted", flush=True)
    time.sleep(30)  # what it started must end before it does
