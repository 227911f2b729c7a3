/** A bind mount into the sandbox. Paths are absolute; `target` is as the pod sees it. */
export interface SandboxMount {
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
  /** What the source is: decides how the mount point is made. */
  readonly type: 'directory' | 'file';
}

export interface SandboxPlan {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** Program and arguments that the pod runs. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: readonly SandboxMount[];
  /** `works` leaves /dev/kvm as it is; anything else hides it (docs/decisions/0005). */
  readonly kvm: 'works' | 'fails';
  /** stdout and stderr, appended. */
  readonly logFile: string;
}

/** Exit code of a sandbox that could not be made ready; its log says why. */
export const sandboxSetupFailed = 125;
/** Exit code of a second start of a sandbox that is there already. */
export const sandboxAlreadyStarted = 75;

/** One word for a POSIX shell, whatever is in it. */
export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

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
 * exit code on disk for whoever looks later: the program's, or 137 when process 1 was killed (`unshare` of util-linux 2.38 does
 * not tell). The namespaces die with `unshare`. `$1` is the sandbox's directory.
 */
export function shimScript(cgroupDir: string | undefined): string {
  const joinCgroup = cgroupDir ? `echo $$ 2>/dev/null >${shellQuote(`${cgroupDir}/cgroup.procs`)}` : ':';
  return `#!/bin/sh
cd "$1" || exit ${sandboxSetupFailed}
exec 9>lock
flock -n 9 || exit ${sandboxAlreadyStarted}
${recordIdentity}
record shim
(${joinCgroup}) 2>/dev/null
unshare --mount --propagation slave --pid --ipc --fork --kill-child=KILL /bin/sh ./init.sh
code=${sandboxSetupFailed}
[ ! -e pid1 ] || code=137
[ ! -e program-exit ] || read -r code <program-exit
echo "$code" >exit-code.new && mv exit-code.new exit-code
`;
}

/**
 * The inner script, process 1 of the pod: mounts, then the program; passes SIGTERM on, reaps what is left to it and, when
 * the program has ended, gives QEMU the time to write out its disks (spec 70 §1.1). With process 1 everything ends.
 */
export function initScript(plan: SandboxPlan): string {
  const mounts = plan.mounts.map(mountLines).join('\n');
  const kvm = plan.kvm === 'works' ? '' : 'if [ -e /dev/kvm ]; then bind "$dir/no-kvm" /dev/kvm; fi';
  return `#!/bin/sh
finish() {
  echo "$1" >"$dir/program-exit.new" && mv "$dir/program-exit.new" "$dir/program-exit"
  exit "$1"
}
die() {
  echo "sandbox: $*" >&2
  finish ${sandboxSetupFailed}
}
bind() { mount --bind "$1" "$2" || die "cannot bind $1 at $2"; }
${recordIdentity}
dir=$PWD
record pid1
mount -t proc proc /proc || die 'cannot mount /proc: the node needs the right to mount (root)'
${privateDirectories}
bind "$dir/passwd" /etc/passwd
bind "$dir/group" /etc/group
${kvm}
${mounts}
cd / || die 'no root directory'
trap 'kill -TERM "$child" 2>/dev/null' TERM INT
${plan.argv.map(shellQuote).join(' ')} 9>&- &
child=$!
while :; do
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null || break
done
${endQemu}
finish "$code"
`;
}

/** Nothing that the pod writes to libvirt's places or to /run is seen by the host or by another pod. */
const privateDirectories = `mount -t tmpfs -o mode=755,size=64m tmpfs /run || die 'cannot mount a private /run'
mkdir -p /run/lock /run/user
for place in /etc/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt; do
  [ -d "$place" ] || die "$place is missing: install libvirt-daemon-system"
done
mount -t tmpfs -o mode=755,size=16m tmpfs /etc/libvirt || die 'cannot mount a private /etc/libvirt'
bind "$dir/lib-libvirt" /var/lib/libvirt
bind "$dir/log-libvirt" /var/log/libvirt
bind "$dir/cache-libvirt" /var/cache/libvirt`;

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

function mountLines(mount: SandboxMount): string {
  const [source, target] = [shellQuote(mount.source), shellQuote(mount.target)];
  const parent = shellQuote(mount.target.replace(/\/[^/]*$/, '') || '/');
  const point =
    mount.type === 'directory' ? `mkdir -p ${target}` : `mkdir -p ${parent} && { [ -e ${target} ] || : >${target}; }`;
  const lines = [`${point} || die 'no mount point at' ${target}`, `bind ${source} ${target}`];
  if (mount.readOnly) lines.push(`mount -o remount,bind,ro ${target} || die 'cannot make read-only' ${target}`);
  return lines.join('\n');
}
