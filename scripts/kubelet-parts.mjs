// What `npm run test:kubelet` runs on: a real kubelet with its controllers, built once from Kubernetes' Go module, and images.
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { bundleProgram } from './bundle.mjs';
import { guestAgentArchive } from './guest/agent.mjs';
import { buildGuest, guestDir } from './guest/build.mjs';
import { buildFromGoModule, buildGoProgram, kubeApiserverAssets, version } from './kube-apiserver.mjs';
import { containerDisk, makeLauncherRoot } from './kubelet-launcher.mjs';

const programs = ['kubelet', 'kube-scheduler', 'kube-controller-manager'];
const programsDir = path.resolve('.cache', `kubelet-${version}`);
/** Each with the Debian package that has it. */
const tools = {
  containerd: 'containerd',
  runc: 'runc',
  '/usr/lib/cni/bridge': 'containernetworking-plugins',
  '/bin/busybox': 'busybox-static',
  buildah: 'buildah',
  unshare: 'util-linux',
  ip: 'iproute2',
  kubectl: 'kubernetes-client',
  setcap: 'libcap2-bin',
  gcc: 'gcc libc6-dev',
  genisoimage: 'genisoimage',
  '/usr/sbin/libvirtd': 'libvirt-daemon-system',
  'qemu-system-x86_64': 'qemu-system-x86',
};
/** The plugin that connects pods to further networks, as one program that containerd starts. */
const multus = { module: 'gopkg.in/k8snetworkplumbingwg/multus-cni.v4', version: 'v4.2.3', folder: 'cmd/multus' };
const multusProgram = path.resolve('.cache', `multus-${multus.version}`);
const agentImage = path.resolve('.build/image/virt-handler.tar');

export function isThere(tool) {
  if (tool.startsWith('/')) return existsSync(tool);
  return spawnSync('sh', ['-c', `command -v ${tool}`]).status === 0;
}

/** What keeps a kubelet from running here, in words; undefined when nothing does. */
export function whyNoKubelet() {
  if (process.getuid?.() !== 0) return 'containers and their devices take root';
  const missing = Object.entries(tools).filter(([tool]) => !isThere(tool));
  if (missing.length > 0) {
    return `missing: apt-get install --no-install-recommends ${missing.map(([, name]) => name).join(' ')}`;
  }
  const built = [...programs.map((name) => path.join(programsDir, name)), containerDisk, multusProgram];
  const unbuilt = built.filter((file) => !existsSync(file)).map((file) => path.basename(file));
  if (unbuilt.length > 0 && !isThere('go')) return `there is no \`go\` to build ${unbuilt.join(', ')} with`;
  return undefined;
}

function buildPrograms(log) {
  mkdirSync(programsDir, { recursive: true });
  for (const name of programs) {
    const target = path.join(programsDir, name);
    if (existsSync(target)) continue;
    log(`building ${name} ${version} from its Go module; some minutes, once`);
    buildFromGoModule(`${target}.new`, `k8s.io/kubernetes/cmd/${name}`);
    renameSync(`${target}.new`, target);
  }
  if (existsSync(multusProgram)) return;
  log(`building Multus ${multus.version} from its Go module; some minutes, once`);
  buildGoProgram(`${multusProgram}.new`, multus);
  renameSync(`${multusProgram}.new`, multusProgram);
}

function newestMs(place) {
  const stat = statSync(place);
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(stat.mtimeMs, ...readdirSync(place).map((name) => newestMs(path.join(place, name))));
}

/** Again when a source is younger than the image. */
function buildAgentImage(log) {
  const sources = ['src', 'image', 'package.json', 'package-lock.json', 'scripts/build.mjs', 'scripts/bundle.mjs'].map(
    newestMs,
  );
  if (existsSync(agentImage) && statSync(agentImage).mtimeMs > Math.max(...sources)) return;
  log("building the agent's image");
  execFileSync('bash', ['image/build.sh'], { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Writes what libvirt said of a real machine where the agent looks for it, as upstream's launcher does. */
const nodeLabeller = '#!/bin/sh\nset -e\ncp /capabilities/*.xml /var/lib/kubevirt-node-labeller/\n';

/**
 * One image under three names: what holds a pod's namespaces, what tests run (our launcher with this machine's libvirt and QEMU
 * among it), and what is in the place of upstream's launcher in the DaemonSet.
 */
const toolsImages = ['localhost/pause:1', 'localhost/tools:1', 'quay.io/kubevirt/virt-launcher:v1.9.0'];

/**
 * What a user gives a VM: a kernel with a file system in memory, and a disk. Nothing runs in it but the program of container disks.
 * A second file system in memory has a guest agent besides.
 */
const guestImage = 'localhost/guest:1';

const work = path.resolve('.build/kubelet');

async function buildToolsImage() {
  const root = path.join(work, 'tools/root');
  await makeLauncherRoot(root);
  cpSync('/bin/busybox', path.join(root, 'bin/busybox'));
  // Others are there already, for the launcher's monitor.
  for (const applet of ['sh', 'ls', 'cat', 'test', 'dd', 'mkdir', 'nc']) {
    symlinkSync('busybox', path.join(root, 'bin', applet));
  }
  cpSync('test/unit/agent/node/labels/hosts/real-nested-kvm', path.join(root, 'capabilities'), { recursive: true });
  writeFileSync(path.join(root, 'bin/node-labeller.sh'), nodeLabeller, { mode: 0o755 });
  return archiveOf('tools', toolsImages[0], 'ENV PATH=/bin\nCMD ["sleep", "2147483647"]\n');
}

function buildGuestImage() {
  buildGuest();
  const boot = path.join(work, 'guest/root/boot');
  mkdirSync(boot, { recursive: true });
  for (const file of ['vmlinuz', 'initramfs.gz']) cpSync(path.join(guestDir, file), path.join(boot, file));
  const both = [path.join(boot, 'initramfs.gz'), guestAgentArchive()].map((file) => readFileSync(file));
  writeFileSync(path.join(boot, 'initramfs-agent.gz'), Buffer.concat(both));
  const disks = path.join(work, 'guest/root/disk');
  mkdirSync(disks);
  writeFileSync(path.join(disks, 'disk.img'), 'content of image'.padEnd(1 << 20, '\0'));
  return archiveOf('guest', guestImage);
}

/** An image of the files in `<name>/root`; a path stands for itself. */
export function archiveOf(name, image, more = '') {
  const dir = path.resolve(work, name);
  writeFileSync(path.join(dir, 'Containerfile'), `FROM scratch\nCOPY root/ /\n${more}`);
  const buildah = ['--root', `${work}/storage`, '--runroot', `${work}/run`, '--storage-driver', 'vfs'];
  const run = (command, ...args) => {
    const policy = ['--signature-policy', 'image/policy.json', '--quiet'];
    execFileSync('buildah', [...buildah, command, ...policy, ...args], { stdio: ['ignore', 'ignore', 'inherit'] });
  };
  run('build', '--isolation', 'chroot', '--tag', image, dir);
  const archive = `${dir}.tar`;
  run('push', '--disable-compression', image, `oci-archive:${archive}:${image}`);
  return archive;
}

/** Builds what is missing. Folders of programs, archives of images. `AGENT_IMAGE` names the archive of an image that is already built. */
export async function kubeletParts(log = console.error) {
  buildPrograms(log);
  const given = process.env.AGENT_IMAGE;
  if (!given) buildAgentImage(log);
  rmSync(work, { recursive: true, force: true });
  mkdirSync(path.join(work, 'logs'), { recursive: true });
  const archives = [given ?? agentImage, await buildToolsImage(), buildGuestImage()];
  const controller = path.join(work, 'virt-controller.mjs');
  await bundleProgram('virt-controller', controller);
  const launchers = { ours: { image: toolsImages[1], program: '/usr/lib/virt-launcher.mjs' } };
  return {
    assets: kubeApiserverAssets(log),
    programs: programsDir,
    multus: multusProgram,
    controller,
    archives,
    toolsImages,
    guestImage,
    launchers,
  };
}
