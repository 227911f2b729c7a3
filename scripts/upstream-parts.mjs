// What `npm run test:upstream` runs beside ours: KubeVirt's own agent and launcher, built once from its Go module, in an image of their own.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { buildContainerDisk, containerDisk, kubevirtVersion } from './kubelet-launcher.mjs';
import { archiveOf, isThere, kubeletParts, whyNoKubelet } from './kubelet-parts.mjs';

const cache = path.resolve('.cache', `upstream-${kubevirtVersion}`);
/** Packages of its module. */
const packages = [
  'virt-launcher',
  'virt-launcher/libvirt-hook-client',
  'virt-launcher-monitor',
  'virt-handler',
  'virt-chroot',
  'virt-tail',
  'virt-probe',
  'virt-freezer',
];
const programs = packages.map((name) => path.basename(name));
/** Its libvirt (11) takes the domains that this launcher defines. */
const suite = 'trixie';
/** What upstream's images hold, of Debian. */
const runs = [
  ...[
    'libvirt-daemon',
    'libvirt-daemon-driver-qemu',
    'libvirt-daemon-log',
    'libvirt-clients',
    'qemu-system-x86',
    'qemu-utils',
    'xorriso',
  ],
  ...['genisoimage', 'nftables', 'iproute2', 'procps', 'acl', 'libcap2-bin'],
];
const builds = ['gcc', 'libc6-dev', 'pkgconf', 'libvirt-dev'];
/**
 * Names alone, of our own, for three modules that not every module proxy has: backups by NBD, and VM templates, which are compiled into these
 * programs by way of informers of virt-controller. No test reaches either. All else is what KubeVirt's go.mod says.
 */
const standIns = {
  'libguestfs.org/libnbd': 'libnbd',
  'kubevirt.io/virt-template-api': 'virt-template-api',
  'kubevirt.io/virt-template-client-go': 'virt-template-client-go',
};

const hashOf = (...parts) => createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 12);
/** Another list of programs is another folder: what was built before does not stand in for it. */
const programsFolder = `programs-${hashOf(...packages)}`;
const built = (name) => path.join(cache, programsFolder, name);
/** Upstream's agent as `--vs` of a bench. Throws unless it has been built. */
export function upstreamAgentCommand() {
  const missing = ['virt-handler', 'virt-chroot'].find((name) => !existsSync(built(name)));
  if (missing) throw new Error(`upstream's ${missing} is not built: npm run test:upstream`);
  return `sh bench/upstream-agent.sh ${path.join(cache, programsFolder)}`;
}

/** What keeps upstream's programs from running here, in words; undefined when nothing does. */
export function whyNoUpstream() {
  const reason = whyNoKubelet();
  if (reason) return reason;
  if (programs.every((name) => existsSync(built(name))) && existsSync(path.join(cache, 'root'))) return undefined;
  if (!isThere('debootstrap')) return 'missing: apt-get install --no-install-recommends debootstrap';
  return isThere('go') ? undefined : `there is no \`go\` to build ${programs[0]} with`;
}

const inRoot = (root, command, env = {}) =>
  execFileSync('bash', ['scripts/upstream/in-root.sh', root, ...command], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });

function install(root, packages) {
  inRoot(root, ['apt-get', 'update', '-qq']);
  inRoot(root, ['apt-get', 'install', '-qq', '--no-install-recommends', ...packages]);
  inRoot(root, ['apt-get', 'clean']);
}

/** A folder that is there is whole: it gets its name when it is. */
function makeOnce(name, make) {
  const target = path.join(cache, name);
  if (existsSync(target)) return target;
  const unfinished = `${target}.new`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(cache, { recursive: true });
  make(unfinished);
  renameSync(unfinished, target);
  return target;
}

function makeRoot(root) {
  execFileSync('debootstrap', ['--variant=minbase', '--include=ca-certificates', suite, root], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  install(root, runs);
}

const go = (args, cwd, env = {}) =>
  execFileSync('go', args, { cwd, encoding: 'utf8', env: { ...process.env, GOFLAGS: '-mod=mod', ...env } });

/** A module of its own with KubeVirt's versions of everything: its staging folders, which are published as modules, among them. */
function writeModule(dir) {
  mkdirSync(dir, { recursive: true });
  const { GoMod, Dir } = JSON.parse(go(['mod', 'download', '-json', `kubevirt.io/kubevirt@${kubevirtVersion}`], dir));
  writeFileSync(path.join(dir, 'go.mod'), readFileSync(GoMod, 'utf8').replace(/^module .*/m, 'module build'));
  copyFileSync(path.join(Dir, 'go.sum'), path.join(dir, 'go.sum'));
  chmodSync(path.join(dir, 'go.sum'), 0o644);
  cpSync('scripts/upstream/stand-ins', path.join(dir, 'stand-ins'), { recursive: true });
  const staged = ['kubevirt.io/api', 'kubevirt.io/client-go'].map(
    (name) => `-replace=${name}=${name}@${kubevirtVersion}`,
  );
  const replaced = Object.entries(standIns).map(([name, folder]) => `-replace=${name}=./stand-ins/${folder}`);
  go(['mod', 'edit', `-require=kubevirt.io/kubevirt@${kubevirtVersion}`, ...staged, ...replaced], dir);
  return Dir;
}

/** cgo takes libvirt's headers of the Debian that the programs run on. */
function buildPrograms(target, root) {
  const buildRoot = makeOnce('build-root', (copy) => {
    execFileSync('cp', ['-a', root, copy]);
    install(copy, builds);
  });
  const work = path.join(buildRoot, 'build');
  rmSync(work, { recursive: true, force: true });
  writeModule(work);
  const [GO_ROOT, GO_MODULES, GO_BUILDS] = go(['env', 'GOROOT', 'GOMODCACHE', 'GOCACHE'], work).trim().split('\n');
  const commands = packages.map((name) => `kubevirt.io/kubevirt/cmd/${name}`);
  mkdirSync(GO_BUILDS, { recursive: true });
  inRoot(buildRoot, ['sh', '-c', `cd /build && go build -o out/ ${commands.join(' ')}`], {
    GO_ROOT,
    GO_MODULES,
    GO_BUILDS,
  });
  cpSync(path.join(work, 'out'), target, { recursive: true });
  rmSync(buildRoot, { recursive: true });
}

/**
 * A program of our own on upstream's module: `launcher-pods` and `domains` say what upstream makes of something, `virtctl` is its command line.
 * @param {string} kind
 * @returns {string} its path
 */
function programOnModule(kind) {
  const source = readFileSync(`scripts/upstream/${kind}.go`, 'utf8');
  const name = `${kind}-${hashOf(source)}`;
  const made = makeOnce(name, (dir) => {
    writeModule(dir);
    // What they say does not touch a libvirt.
    go(['mod', 'edit', '-replace=libvirt.org/go/libvirt=./stand-ins/libvirt'], dir);
    writeFileSync(path.join(dir, 'main.go'), source);
    go(['build', '-o', 'render', '.'], dir);
  });
  return path.join(made, 'render');
}

/** A program of upstream's that needs neither libvirt nor a Debian around it, built once; other names to compile against make another one. */
function staticProgram({ program, command = program, folder, names }, log) {
  const texts = names.map((name) =>
    readFileSync(`scripts/upstream/stand-ins/virt-template-api/core/v1beta1/${name}.go`, 'utf8'),
  );
  const name = `${folder}-${hashOf(...texts)}`;
  if (!existsSync(path.join(cache, name)))
    log(`building ${program} ${kubevirtVersion} from its Go module; some minutes, once`);
  const made = makeOnce(name, (dir) => {
    writeModule(dir);
    go(['build', '-o', program, `kubevirt.io/kubevirt/cmd/${command}`], dir, { CGO_ENABLED: '0' });
  });
  return path.resolve(made, program);
}

/**
 * Upstream's virt-controller.
 * @returns {string} its path
 */
export function upstreamController(log = console.error) {
  return staticProgram({ program: 'virt-controller', folder: 'controller', names: ['v1beta1'] }, log);
}

/**
 * Upstream's virt-exportserver: what serves a volume, or a backup that a launcher brings to it.
 * @returns {string} its path
 */
export function upstreamExportServer(log = console.error) {
  return staticProgram({ program: 'virt-exportserver', folder: 'exportserver', names: ['v1beta1', 'group'] }, log);
}

/**
 * Upstream's virt-synchronization-controller: what carries the states of a migration between two VMI objects from one to the other.
 * @returns {string} its path
 */
export function upstreamSynchronizationController(log = console.error) {
  const program = 'virt-synchronization-controller';
  const names = ['v1beta1', 'group'];
  return staticProgram({ program, command: 'synchronization-controller', folder: 'synchronization', names }, log);
}

/** Sources of the module: the configuration of libvirt is among them. */
const sources = () =>
  JSON.parse(go(['mod', 'download', '-json', `kubevirt.io/kubevirt@${kubevirtVersion}`], cache)).Dir;

/** As upstream's images are: the user, the configuration of libvirt, the programs, the right to bind low ports. */
function completeRoot(root) {
  const configuration = path.join(sources(), 'cmd/virt-launcher');
  for (const file of ['qemu.conf', 'virtqemud.conf'])
    copyFileSync(path.join(configuration, file), path.join(root, 'etc/libvirt', file));
  mkdirSync(path.join(root, 'etc/libvirt/hooks'), { recursive: true });
  for (const name of programs) copyFileSync(built(name), path.join(root, 'usr/bin', name));
  buildContainerDisk();
  copyFileSync(containerDisk, path.join(root, 'usr/bin/container-disk'));
  rmSync(path.join(root, 'var/run'), { recursive: true });
  symlinkSync('../run', path.join(root, 'var/run'));
  writeFileSync(path.join(root, 'usr/sbin/virtqemud'), virtqemud, { mode: 0o755 });
  inRoot(root, ['sh', '-ec', asUpstream]);
}

/** Debian has one daemon for all drivers, at a socket of another name. */
const virtqemud = `#!/bin/sh
ln -sf libvirt-sock /var/run/libvirt/virtqemud-sock
exec /usr/sbin/libvirtd "$@"
`;

const asUpstream = `
chmod 644 /etc/libvirt/*.conf
chmod 755 /usr/bin/virt-* /usr/bin/container-disk /usr/bin/libvirt-hook-client
groupadd -g 107 -o qemu
useradd -u 107 -g 107 -o -d /home/qemu -s /bin/bash qemu
# All that is copied into an image is root's, and upstream's launcher puts a link in here as qemu.
chmod 1777 /etc/libvirt/hooks
setcap cap_net_bind_service=+ep /usr/bin/virt-launcher-monitor
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/doc /usr/share/locale
`;

/** One image for both: launcher and agent bring the same libraries. */
const upstreamImage = 'localhost/upstream:1';
const imageName = `image-${hashOf(programsFolder, virtqemud, asUpstream)}`;

/** What `kubeletParts` gives, and upstream's image beside. */
export async function upstreamParts(log = console.error) {
  const done = ['root', programsFolder, `${imageName}.tar`].every((name) => existsSync(path.join(cache, name)));
  if (!done)
    log(
      `building virt-handler and virt-launcher ${kubevirtVersion} with a Debian ${suite} around them; some minutes, once`,
    );
  const root = makeOnce('root', makeRoot);
  makeOnce(programsFolder, (target) => buildPrograms(target, root));
  const renderer = programOnModule('launcher-pods');
  const converter = programOnModule('domains');
  const virtctl = programOnModule('virtctl');
  const theirController = upstreamController(log);
  const exportServer = upstreamExportServer(log);
  const synchronization = upstreamSynchronizationController(log);
  const parts = await kubeletParts(log);
  const archive = path.join(cache, `${imageName}.tar`);
  if (!existsSync(archive)) packImage(root);
  const launchers = { ...parts.launchers, upstream: { image: upstreamImage, program: '/usr/bin/virt-launcher' } };
  const upstream = { root, programs: path.join(cache, programsFolder) };
  return {
    ...parts,
    archives: [...parts.archives, archive],
    launchers,
    renderer,
    converter,
    virtctl,
    theirController,
    exportServer,
    synchronization,
    upstream,
  };
}

function packImage(root) {
  const dir = path.join(cache, 'image.new');
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir);
  execFileSync('cp', ['-a', root, path.join(dir, 'root')]);
  completeRoot(path.join(dir, 'root'));
  archiveOf(dir, upstreamImage);
  rmSync(dir, { recursive: true });
  renameSync(`${dir}.tar`, path.join(cache, `${imageName}.tar`));
}
