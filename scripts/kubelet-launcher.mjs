// The files of a virt-launcher with this machine's libvirt and QEMU, for an image that only this machine runs.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bundleProgram, bundlePrograms } from './bundle.mjs';

export const kubevirtVersion = 'v1.9.0';
const libraries = '/usr/lib/x86_64-linux-gnu';
const programs = [
  '/usr/bin/cp',
  '/usr/sbin/libvirtd',
  '/usr/bin/qemu-system-x86_64',
  '/usr/bin/genisoimage',
  '/usr/bin/qemu-img',
  '/usr/lib/libvirt/libvirt_iohelper',
];
/** Loaded at run time: no program names them. */
const modules = [`${libraries}/libvirt`, `${libraries}/qemu`];
const data = ['/usr/share/qemu', '/usr/share/seabios', '/usr/share/libvirt', '/usr/lib/ipxe'];
const passwd = 'root:x:0:0::/root:/bin/sh\nqemu:x:107:107::/:/bin/sh\n';
const group = 'root:x:0:\nqemu:x:107:\n';

/** Where the monitor looks for it. */
const node = '/usr/bin/node';
const monitorShell = '/usr/libexec/busybox-monitor';
/** For what has no capability at all. */
const plainShell = '/usr/libexec/busybox';

/**
 * DHCP is served on port 67, and no container of a user has a capability of its own: as in upstream's image, the files have it. A process that may get
 * no new privileges keeps what it has, so the shell that starts Node.js needs it, too. No other program may be one of these two: where the
 * capability is dropped the kernel refuses to run them.
 */
function mayServeDhcp(root) {
  for (const file of [monitorShell, node]) {
    execFileSync('setcap', ['cap_net_bind_service=+ep', path.join(root, file)]);
  }
}

export const containerDisk = path.resolve('.cache', `container-disk-${kubevirtVersion}`);

/** What the containers of disks run in images that have nothing else: upstream's program, from its Go module. Once. */
export function buildContainerDisk() {
  if (existsSync(containerDisk)) return;
  const work = mkdtempSync(path.join(tmpdir(), 'kubevirt-'));
  try {
    const download = ['mod', 'download', '-json', `kubevirt.io/kubevirt@${kubevirtVersion}`];
    const { Dir } = JSON.parse(execFileSync('go', download, { cwd: work }));
    const source = path.join(Dir, 'cmd/container-disk-v2alpha/main.c');
    execFileSync('gcc', ['-static', '-O2', '-o', `${containerDisk}.new`, source]);
    renameSync(`${containerDisk}.new`, containerDisk);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** All shared objects that these files are linked with, the loader among them. */
function linkedWith(files) {
  const output = execFileSync('ldd', files, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  return [...output.matchAll(/(?:=> |^\t)(\/\S+) \(0x/gm)].map(([, file]) => file);
}

function filesBelow(dir) {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
}

function copy(root, file, as = file) {
  const target = path.join(root, as);
  if (existsSync(target)) return;
  mkdirSync(path.dirname(target), { recursive: true });
  cpSync(realpathSync(file), target, { recursive: true, dereference: true });
}

/** The log container's program: the first process of its namespaces hears no signal that it does not ask for. */
const tail = `#!${plainShell} sh
trap 'exit 0' TERM INT
while [ "$1" != --logfile ]; do shift; done
${plainShell} tail -n +1 -F "$2" &
wait
`;

/** By it a kubelet asks the guest agent. As the launcher's: node has a capability that only such a shell passes on. */
const probe = `#!${monitorShell} sh
exec ${node} /usr/lib/virt-probe.mjs "$@"
`;

/** Into an empty folder: one /usr, as Debian has it. */
export async function makeLauncherRoot(root) {
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) {
    mkdirSync(path.join(root, 'usr', name), { recursive: true });
    symlinkSync(`usr/${name}`, path.join(root, name));
  }
  const linked = [process.execPath, ...programs.filter(existsSync), ...modules.filter(existsSync).flatMap(filesBelow)];
  for (const file of new Set([...linked, ...linkedWith(linked), ...data.filter(existsSync)])) {
    copy(root, file, file === process.execPath ? node : file);
  }
  // Compiled by the Node.js that is in there, too.
  await bundlePrograms(['virt-launcher'], path.join(root, 'usr/lib'), { extension: '.mjs', sourcemap: false });
  await bundleProgram('virt-probe', path.join(root, 'usr/lib/virt-probe.mjs'));
  for (const name of ['koffi', `@koromix/koffi-linux-${process.arch}`]) {
    cpSync(path.join('node_modules', name), path.join(root, 'usr/lib/node_modules', name), { recursive: true });
  }
  const monitor = readFileSync('image/launcher/virt-launcher-monitor', 'utf8').replace(
    '#!/bin/sh',
    `#!${monitorShell} sh`,
  );
  writeFileSync(path.join(root, 'usr/bin/virt-launcher-monitor'), monitor, { mode: 0o755 });
  mkdirSync(path.join(root, 'usr/libexec'), { recursive: true });
  for (const shell of [monitorShell, plainShell]) copy(root, '/bin/busybox', shell);
  for (const name of ['sleep', 'rm', 'tail', 'date']) symlinkSync(plainShell, path.join(root, 'usr/bin', name));
  writeFileSync(path.join(root, 'usr/bin/virt-tail'), tail, { mode: 0o755 });
  writeFileSync(path.join(root, 'usr/bin/virt-probe'), probe, { mode: 0o755 });
  buildContainerDisk();
  copy(root, containerDisk, '/usr/bin/container-disk');
  mkdirSync(path.join(root, 'etc'));
  writeFileSync(path.join(root, 'etc/passwd'), passwd);
  writeFileSync(path.join(root, 'etc/group'), group);
  for (const name of ['var', 'tmp', 'root', 'run']) mkdirSync(path.join(root, name));
  chmodSync(path.join(root, 'tmp'), 0o1777);
  symlinkSync('../run', path.join(root, 'var/run'));
  mayServeDhcp(root);
}
