// What the node needs of the distribution, found by its files, installed by apt-get when missing.
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { quote, runLogged, SetupError, say } from './report.mjs';

/** Package → what it is for and a file (or a program, without a slash) that shows that it is there. */
const node = {
  'libvirt-daemon-system': { for: 'runs the virtual machines', has: ['libvirtd', '/etc/libvirt'] },
  'libvirt-daemon-driver-qemu': {
    for: 'libvirt for QEMU',
    has: ['/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so'],
  },
  'libvirt-clients': { for: 'virsh, to look at a VM', has: ['virsh'] },
  'qemu-system-x86': { for: 'QEMU', has: ['qemu-system-x86_64'] },
  'qemu-utils': { for: 'disk images', has: ['qemu-img'] },
  curl: { for: 'disks from addresses', has: ['curl'] },
  'xz-utils': { for: 'disks that are packed', has: ['xz'] },
  ovmf: { for: 'EFI firmware', has: ['/usr/share/OVMF'] },
  swtpm: { for: 'TPMs of guests', has: ['swtpm'] },
  'swtpm-tools': { for: 'TPMs of guests', has: ['swtpm_setup'] },
  cpio: { for: 'building the demo guest', has: ['cpio'] },
  genisoimage: { for: 'cloud-init disks', has: ['genisoimage'] },
  iproute2: { for: 'network of pods', has: ['ip'] },
  nftables: { for: 'network of pods', has: ['nft'] },
  'dnsmasq-base': { for: 'addresses and names of pods', has: ['dnsmasq'] },
  'openssh-client': { for: 'logins to guests', has: ['ssh', 'scp', 'ssh-keygen'] },
  'kubernetes-client': { for: 'kubectl', has: ['kubectl'] },
};
const browser = {
  chromium: { for: 'tests of the web page in a real browser', has: ['chromium'] },
};
const clients = {
  'isc-dhcp-client': { for: 'a DHCP client for the launcher’s server', has: ['dhclient'] },
  udhcpc: { for: 'the DHCP client of small guests', has: ['udhcpc'] },
};
const cluster = {
  'etcd-server': { for: 'a real Kubernetes API for tests', has: ['etcd'] },
};
const migration = {
  haproxy: { for: 'streams of live migrations', has: ['haproxy'] },
};
const monitoring = {
  prometheus: { for: 'promtool, which judges metrics and alerts', has: ['promtool'] },
};
/** A partition that EFI boots from. */
const media = {
  mtools: { for: 'what EFI boots from', has: ['mformat', 'mcopy'] },
};
/** A disk image of Debian. */
const guests = {
  ...media,
  mmdebstrap: { for: 'a Debian in a directory', has: ['mmdebstrap'] },
  fdisk: { for: 'partitions of a disk image', has: ['sfdisk'] },
  e2fsprogs: { for: 'its root file system', has: ['mke2fs'] },
};
export const packagesFor = {
  up: node,
  /** `npm run up -- --nodes 2` */
  'up-nodes': { ...node, ...migration },
  test: { ...node, ...browser, ...clients, ...monitoring, ...migration, ...media },
  guests: { ...node, ...guests },
  cluster,
  check: {},
};

const searchPath = [...(process.env.PATH ?? '').split(':'), '/usr/local/sbin', '/usr/sbin', '/sbin'].filter(Boolean);

export function findProgram(name) {
  return searchPath.map((dir) => path.join(dir, name)).find((file) => isExecutable(file));
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

const isThere = (what) => (what.startsWith('/') ? existsSync(what) : findProgram(what) !== undefined);

/** Missing packages of a table. */
export function missingPackages(table) {
  return Object.entries(table)
    .filter(([, { has }]) => !has.every(isThere))
    .map(([name]) => name);
}

/** How this user may run things as root: directly, by sudo without a password, or not at all (undefined). */
async function rootPrefix() {
  if (process.getuid?.() === 0) return [];
  if (findProgram('sudo') && (await runLogged('sudo', ['-n', 'true'])).code === 0) return ['sudo', '-n'];
  return undefined;
}

const lockTimeoutMs = 300_000;
const lockHeld = /Could not get lock|Unable to (acquire|lock)|is another process using it/i;

async function aptGet(prefix, args) {
  const [command, ...rest] = [...prefix, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-q', ...args];
  const endMs = performance.now() + lockTimeoutMs;
  for (let isSaid = false; ; isSaid = true) {
    const result = await runLogged(command, rest);
    if (result.code === 0 || !lockHeld.test(result.tail) || performance.now() > endMs) return result;
    if (!isSaid) say(`another program holds apt's lock; waiting up to ${lockTimeoutMs / 60_000} minutes for it`);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
  }
}

const policyFile = '/usr/sbin/policy-rc.d';
const ours = '#!/bin/sh\n# virt-handler set-up: packages install, their services do not start\nexit 101\n';

/** Debian's way of saying that installing a package must not start its services. An existing policy is left alone. */
async function withoutServices(prefix, work) {
  if (existsSync(policyFile)) return work();
  const [command, ...args] = [
    ...prefix,
    'sh',
    '-c',
    `printf '%s' "$1" >${policyFile} && chmod 755 ${policyFile}`,
    'sh',
    ours,
  ];
  await runLogged(command, args);
  try {
    return await work();
  } finally {
    const [remove, ...removeArgs] = [...prefix, 'rm', '-f', policyFile];
    if (existsSync(policyFile) && readFileSync(policyFile, 'utf8') === ours) await runLogged(remove, removeArgs);
  }
}

/** The node's VMs have daemons of their own: the machine's libvirt stays off unless somebody else wants it. */
async function disableServices(prefix, installed) {
  if (!installed.includes('libvirt-daemon-system') || !findProgram('systemctl')) return;
  const units = ['libvirtd', 'libvirt-guests', 'virtlogd', 'virtlockd'].map((name) => `${name}.service`);
  const sockets = ['libvirtd', 'libvirtd-ro', 'libvirtd-admin', 'virtlogd', 'virtlockd'].map(
    (name) => `${name}.socket`,
  );
  const [command, ...args] = [...prefix, 'systemctl', 'disable', '--quiet', ...units, ...sockets];
  await runLogged(command, args);
}

function explain(what, { tail }) {
  const offline = /Temporary failure resolving|Could not resolve|Failed to fetch|Cannot initiate the connection/i.test(
    tail,
  );
  const hint = offline ? ': the Debian mirror cannot be reached (no network, or a proxy is needed)' : '';
  return new SetupError(`${what} failed${hint}:\n${quote(tail)}`);
}

/** The node's pods are namespaces with mounts: that takes root. Throws SetupError with all that is missing at once. */
export async function ensureRootRights(table) {
  if (await rootPrefix()) return;
  const missing = missingPackages(table);
  const packages = missing.length > 0 ? `, and these Debian packages are missing: ${missing.join(' ')}` : '';
  const install = missing.length > 0 ? `${installByHand(missing)}\n  ` : '';
  throw new SetupError(
    `virtual machines run in pods that only root may make${packages}.\nThis user may not use sudo. As root:\n  ${install}npm run up`,
  );
}

function installByHand(missing) {
  return `apt-get update && apt-get install --no-install-recommends ${missing.join(' ')}`;
}

/** Installs what is missing. Throws SetupError with the one command to run when this user may not. */
export async function ensurePackages(table) {
  const missing = missingPackages(table);
  if (missing.length === 0) return;
  if (!findProgram('apt-get')) {
    throw new SetupError(
      `this machine has no apt-get, so install by its own means what Debian 12 calls: ${missing.join(' ')}`,
    );
  }
  const prefix = await rootPrefix();
  if (!prefix) {
    throw new SetupError(
      `these Debian packages are missing: ${missing.join(' ')}\nRun this once as root, then try again:\n  ${installByHand(missing)}`,
    );
  }
  for (const name of missing) say(`missing: ${name} (${table[name].for})`);
  say('apt-get update');
  const update = await aptGet(prefix, ['update']);
  if (update.code !== 0) throw explain('apt-get update', update);
  say(`apt-get install ${missing.join(' ')}`);
  const install = await withoutServices(prefix, () =>
    aptGet(prefix, ['install', '-y', '--no-install-recommends', ...missing]),
  );
  if (install.code !== 0) throw explain(`apt-get install ${missing.join(' ')}`, install);
  await disableServices(prefix, missing);
  const still = missingPackages(table);
  if (still.length > 0) throw new SetupError(`installed, but not found where expected: ${still.join(' ')}`);
}

/** Package lists are needed to download the guest's kernel. A fresh container image has none. */
export async function ensurePackageLists(packageName) {
  const { code, tail } = await runLogged('apt-cache', ['policy', packageName]);
  if (code === 0 && /Candidate: (?!\(none\))/.test(tail)) return;
  const prefix = await rootPrefix();
  if (!prefix) throw new SetupError('apt has no package lists: run `apt-get update` as root, then try again');
  say('apt-get update (for the guest kernel)');
  const update = await aptGet(prefix, ['update']);
  if (update.code !== 0) throw explain('apt-get update', update);
}
