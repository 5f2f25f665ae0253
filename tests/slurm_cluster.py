"""A SLURM of one node on the loopback interface, for the tests: real daemons, no database, no
authentication.

Needs slurmctld, slurmd and slurm-client as Debian packages them (munge is installed with them and
need not run).
"""

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")

# config_overrides allows the node more cores than the machine has, and a fake GPU. The job's memory
# is polled each second, because a container has no control groups. Time limits are checked each
# minute, without a grace period.
CONFIG = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={port}
SlurmdPort={next_port}
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
AccountingStoreFlags=job_comment
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
ReturnToService=2
MinJobAge=3600
KillWait=2
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory={memory} Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=600 State=UP
PartitionName=gpu Nodes={host} MaxTime=600 State=UP
"""


def missing() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


class Cluster:
    """A running cluster with all its files below `folder`; `environment` is for its users. Call
    stop() at the end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: list[subprocess.Popen[bytes]] = []
        for name in ("state", "spool", "bin"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        host, (port, next_port) = socket.gethostname().split(".")[0], _free_ports()
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 9 // 10 // 2**20
        self.config = folder / "slurm.conf"
        user = pwd.getpwuid(os.getuid()).pw_name
        about = {"host": host, "user": user, "port": port, "next_port": next_port}
        self.config.write_text(CONFIG.format(folder=folder, memory=memory, **about))
        (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
        # The plugin's job step drops every variable SLURM_*, and srun would look for the system's
        # configuration.
        srun = shutil.which("srun", path=_path())
        wrapper = folder / "bin" / "srun"
        wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={self.config} exec {srun} "$@"\n')
        wrapper.chmod(0o755)
        self.environment = {"SLURM_CONF": str(self.config), "PATH": f"{folder}/bin:{_path()}"}
        try:
            self._start("slurmctld", "-D")
            self._start("slurmd", "-D", "-N", host)
            self._wait_until_idle()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if queued := self.queued():
            self.ask("scancel", "--full", *queued)
        for _ in range(40):
            if not self.queued():
                break
            time.sleep(0.25)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def queued(self) -> list[str]:
        """Return the ids of waiting and running jobs; also empty without a queue."""
        return self.ask("squeue", "--noheader", "--format=%i").split()

    def jobs(self) -> list[dict[str, str]]:
        """SLURM's records of all jobs of the last hour, from `scontrol show job`."""
        lines = self.ask("scontrol", "show", "job", "--oneliner").splitlines()
        parts = [[part.partition("=")[::2] for part in line.split()] for line in lines]
        return [dict(pairs) for pairs in parts]

    def ask(self, *command: str) -> str:
        """Return the stdout of a SLURM command; empty if it fails."""
        environment = self._environment()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        return done.stdout if done.returncode == 0 else ""

    def _environment(self) -> dict[str, str]:
        return os.environ | self.environment

    def _start(self, *command: str) -> None:
        with open(self.folder / f"{command[0]}.log", "ab") as log:
            started = subprocess.Popen(
                command, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=_end_with_parent,
            )  # fmt: skip
        self.daemons.append(started)

    def _wait_until_idle(self) -> None:
        for _ in range(120):
            if self.ask("sinfo", "--noheader", "--format=%T", "--partition=main").strip() == "idle":
                return
            time.sleep(0.25)
        logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
        nodes = self.ask("sinfo", "-N", "-l")
        raise RuntimeError(f"SLURM's node is not idle after 30 s\n{nodes}\n{logs}")


def _end_with_parent() -> None:
    # On Linux, the daemons end even if this process is killed.
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]
