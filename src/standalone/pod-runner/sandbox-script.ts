import { networkLines } from './sandbox-network.ts';
import type { SandboxMount, SandboxPlan } from './sandbox-plan.ts';
import { rootLines } from './sandbox-root.ts';
import { shellQuote } from './shell-quote.ts';

/** Exit code of a sandbox that could not be made ready; its log says why. */
export const sandboxSetupFailed = 125;
/** Exit code of a second start of a sandbox that is there already. */
export const sandboxAlreadyStarted = 75;

/** Writes `<pid> <start ticks> <boot id>` of this very shell to a file, by rename. /proc must be the host's. */
const recordIdentity = `record() {
  read -r line </proc/self/stat
  set -- "$1" \${line%% *} \${line##*) }
  file=$1 pid=$2
  shift 2
  read -r boot </proc/sys/kernel/random/boot_id
  echo "$pid \${20} $boot" >"$file.new" && mv "$file.new" "$file"
}`;

/**
 * The outer script: holds the sandbox's lock, so that there is only ever one, joins the pod's own cgroup and leaves the
 * exit code on disk for later readers: the program's, or 137 when process 1 was killed (`unshare` of util-linux 2.38 does
 * not tell). The namespaces die with `unshare`. `$1` is the sandbox's directory. With a network of its own the pod's process 1 finds the machine's network as
 * descriptor 8.
 */
export function shimScript(cgroupDir: string | undefined, hasNetwork: boolean): string {
  const joinCgroup = cgroupDir ? `echo $$ 2>/dev/null >${shellQuote(`${cgroupDir}/cgroup.procs`)}` : ':';
  return `#!/bin/sh
cd "$1" || exit ${sandboxSetupFailed}
exec 9>lock
flock -n 9 || exit ${sandboxAlreadyStarted}
${recordIdentity}
record shim || exit ${sandboxSetupFailed}
(${joinCgroup}) 2>/dev/null
${hasNetwork ? 'exec 8</proc/self/ns/net\n' : ''}unshare --mount${hasNetwork ? ' --net' : ''} --propagation slave --pid --ipc --fork --kill-child=KILL /bin/sh ./init.sh
code=${sandboxSetupFailed}
[ ! -e pid1 ] || code=137
[ ! -e program-exit ] || read -r code <program-exit
echo "$code" >exit-code.new && mv exit-code.new exit-code
`;
}

/**
 * What root in a pod may do: what libvirt needs to start QEMU as another user and to give it its files. Not among them: mounts,
 * devices, other users' processes (ptrace), the network's settings, kernel modules, raw sockets, chroot.
 */
const capabilities = [
  ...['chown', 'dac_override', 'fowner', 'fsetid', 'kill', 'setgid', 'setuid', 'setpcap'],
  ...['net_bind_service', 'sys_nice', 'audit_write'],
];

/** From then on process 1 sees the pod's own root directory; before, what enters its namespaces would see the machine's. */
export const rootMade = 'root-made';

/** As the variable `asked`, for the program's process. */
const askedFile = 'asked-to-end';
/** As of a program that SIGTERM ended. */
const askedBeforeProgram = 143;

/**
 * The kernel keeps from process 1 of a pid namespace what would end it by default, so a signal counts from this line on only, and nobody
 * knows process 1 before it has recorded itself. What comes before there is a program is remembered. The program's process looks at
 * the file when it has given up this trap: until then it would lose the signal. Not `:`, whose failing redirection ends a shell.
 */
const askedToEnd = `asked= child=
trap 'asked=1; true 2>/dev/null >${askedFile}; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM INT`;

/**
 * The inner script, process 1 of the pod: makes the pod's root directory, then starts the program; passes SIGTERM on, reaps what is
 * left to it and, when the program has ended, gives QEMU the time to write out its disks. With process 1 everything
 * ends. Its working directory stays the sandbox's on the host: the one way out of the pod, for its exit code, which the rights of
 * process 1 keep from everybody else in the pod. `programs` is what the pod needs besides the system's programs.
 */
export function initScript(plan: SandboxPlan, programs: readonly SandboxMount[]): string {
  return `#!/bin/sh
umask 022
finish() {
  echo "$1" >program-exit.new && mv program-exit.new program-exit
  exit "$1"
}
die() {
  echo "sandbox: $*" >&2
  finish ${sandboxSetupFailed}
}
${recordIdentity}
${askedToEnd}
record pid1 || die 'process 1 cannot be recorded, so nobody could end it: is the disk full?'
${plan.network ? `${networkLines(plan.network)}\n` : ''}${rootLines(plan, programs)}
true >${rootMade} || die 'it cannot be noted that the pod is made: is the disk full?'
${sideLines(plan)}([ ! -e ${askedFile} ] || exit ${askedBeforeProgram}; cd / && exec ${programWords(plan.argv, plan.env)}) ${sideLogs(
    plan,
  )
    .map((fd) => `${fd}>&- `)
    .join('')}9>&- &
child=$!
[ -z "$asked" ] || kill -TERM "$child" 2>/dev/null
while :; do
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null || break
done
child=
${endQemu}
finish "$code"
`;
}

/** Descriptors of their logs, below those that the scripts have for themselves. */
export function sideLogs({ beside = [] }: Pick<SandboxPlan, 'beside'>): number[] {
  return beside.map((_, index) => 3 + index);
}

const sideEnvironment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };

/** They end with process 1; nothing is passed on to them, and nothing asks how they ended. */
function sideLines(plan: SandboxPlan): string {
  const fds = sideLogs(plan);
  const closed = fds.map((fd) => ` ${fd}>&-`).join('');
  const lines = (plan.beside ?? []).map(
    ({ argv }, index) =>
      `(cd / && exec ${programWords(argv, sideEnvironment)}) </dev/null >&${fds[index]} 2>&1${closed} 9>&- &\n`,
  );
  return lines.join('');
}

/** The pod's environment is its program's alone: this shell and its tools must not obey it. */
function programWords(argv: SandboxPlan['argv'], env: SandboxPlan['env']): string {
  return podProgramWords(argv, env).map(shellQuote).join(' ');
}

/** Words that start a program with the rights that a program of a pod may have, and with this environment alone. */
export function podProgramWords(argv: SandboxPlan['argv'], env: SandboxPlan['env']): string[] {
  const bounds = `--bounding-set=-all,${capabilities.map((name) => `+${name}`).join(',')}`;
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  return ['setpriv', bounds, '--inh-caps=-all', '--no-new-privs', 'env', '-i', '--', ...variables, ...argv];
}

/** A QEMU that outlives the launcher (which was killed) is asked to end, for up to 10 s. */
const endQemu = `tries=0
while [ "$tries" -lt 100 ]; do
  alive=
  for proc in /proc/[0-9]*; do
    read -r comm 2>/dev/null <"$proc/comm" || continue
    case $comm in qemu-system* | qemu-kvm*) alive=1; [ "$tries" -gt 0 ] || kill -TERM "\${proc#/proc/}" 2>/dev/null ;; esac
  done
  [ -n "$alive" ] || break
  tries=$((tries + 1))
  sleep 0.1
done`;
