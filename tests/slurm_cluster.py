"""A SLURM of one node on the loopback interface: real daemons, no database, no authentication.

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

import psutil

PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
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
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


class Cluster:
    """A running cluster with its files below `folder`, and the `environment` of its users."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: list[subprocess.Popen[bytes]] = []
        for name in ("state", "spool", "bin"):
            (folder / name).mkdir()
        host = socket.gethostname().split(".")[0]
        port, next_port = _free_ports()
        text = CONFIG.format(
            folder=folder,
            host=host,
            port=port,
            next_port=next_port,
            user=pwd.getpwuid(os.getuid()).pw_name,
            memory=psutil.virtual_memory().total * 9 // 10 // 2**20,
        )
        config = folder / "slurm.conf"
        config.write_text(text)
        (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
        # The plugin's job step drops every variable SLURM_*, and srun would look for the system's
        # configuration.
        srun = shutil.which("srun", path=PATH)
        wrapper = folder / "bin" / "srun"
        wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={config} exec {srun} "$@"\n')
        wrapper.chmod(0o755)
        self.environment = {"SLURM_CONF": str(config), "PATH": f"{folder}/bin:{PATH}"}
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
            time.sleep(5)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(timeout=30)

    def queued(self) -> list[str]:
        """Return the ids of waiting and running jobs; also empty without a queue."""
        return self.ask("squeue", "--noheader", "--format=%i").split()

    def jobs(self) -> list[dict[str, str]]:
        """SLURM's records of all jobs of the last hour, from `scontrol show job`."""
        lines = self.ask("scontrol", "show", "job", "--oneliner").splitlines()
        return [dict(part.partition("=")[::2] for part in line.split()) for line in lines]

    def ask(self, *command: str) -> str:
        """Return the stdout of a SLURM command; empty if it fails."""
        own = os.environ | self.environment
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=60)
        return done.stdout if done.returncode == 0 else ""

    def _start(self, *command: str) -> None:
        with open(self.folder / f"{command[0]}.log", "wb") as log:
            started = subprocess.Popen(
                command, env=os.environ | self.environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, preexec_fn=_end_with_parent,
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
