import path from 'node:path';
import { explainSocketName } from '../api/index.ts';

/** Who has a kubeconfig: the user, the two programs, and the pod runner (`node`). */
export type KubeconfigName = 'admin' | 'virt-controller' | 'virt-handler' | 'node';

/** Every path of the standalone node on disk, from its state directory. */
export interface NodePaths {
  readonly stateDir: string;
  /** Database, certificates, tokens and kubeconfigs of the embedded API. */
  readonly apiDir: string;
  /** What signs tokens for uploads; for root only. */
  readonly uploadTokenKey: string;
  /** The user's, as in `kubeconfigs.admin`. */
  readonly kubeconfig: string;
  readonly kubeconfigs: Readonly<Record<KubeconfigName, string>>;
  /** `<name>.json`: an ordinary user of the API, without the token. */
  readonly usersDir: string;
  /** virt-handler's `--kubelet-root`. */
  readonly kubeletDir: string;
  /** kubelet's layout below: `<uid>/volumes/kubernetes.io~empty-dir/<name>`. */
  readonly podsDir: string;
  /** `<uid>/<container>.log` */
  readonly podLogsDir: string;
  /** `<reference, percent-encoded, _ as %5F>/` holds the image's files. */
  readonly imagesDir: string;
  /** Files that VMs may have as `hostDisk` without further ado. */
  readonly hostDisksDir: string;
  /** What PersistentVolumes hold: `<namespace>_<name>_<UID>/`, named after the claims they were made for. */
  readonly claimsDir: string;
  /** What VolumeSnapshots hold: `snapshot-<UID>.img`. */
  readonly snapshotsDir: string;
  /** Who owned a `hostDisk` before its VM, until that ends. */
  readonly hostDiskOwnersDir: string;
  /** Addresses of pods. */
  readonly podNetworkDir: string;
  /** The node's key pair for guests, `id_ed25519`, and the host keys that guests showed. */
  readonly sshDir: string;
  readonly runDir: string;
  /** One log per program. */
  readonly logDir: string;
  /** virt-handler's `--kubevirt-share-dir`. */
  readonly shareDir: string;
  /** virt-handler's `--kubevirt-private-dir`: ghost records. Survives a reboot, as on a cluster node. */
  readonly privateDir: string;
  /** Where virt-handler explains what it does. */
  readonly agentSocket: string;
  readonly controllerSocket: string;
  /** Authority and key pairs of the agent's servers and of their one client; for root only. */
  readonly certificatesDir: string;
  /** Authority of exporter pods. */
  readonly exportCaDir: string;
  /** Authority of launchers that bring backups to them. */
  readonly backupCaDir: string;
  /** Where the agent serves consoles since its last start; those of further nodes are beside it. */
  readonly agentAddress: string;
  /** Address of the page with its token; for root only. */
  readonly webAddress: string;
  /** The same with the token that lets in for looking only. */
  readonly webViewAddress: string;
  /** What libvirt says about this machine, for the agent's labels of the node. */
  readonly labellerDir: string;
  /** What libvirt learnt about QEMU when the node asked it; each pod gets a copy (docs/decisions/0005). */
  readonly libvirtCacheDir: string;
}

export const defaultStateDir = '/var/lib/virt-node';

/** Of the node with this number: one that has a single node has no numbers in its names. */
const numbered = (name: string, index: number) => (index === 1 ? name : `${name}-${index}`);

/** The Node object of this number, from 1; `first` is the first one's name. */
export function memberName(first: string, index: number): string {
  return numbered(first, index);
}

/** The number that a name of `numbered` with this beginning and end has; undefined for any other name. */
export function memberIndex(name: string, begin: string, end = ''): number | undefined {
  if (name === `${begin}${end}`) return 1;
  if (!name.startsWith(`${begin}-`) || !name.endsWith(end)) return undefined;
  const digits = name.slice(begin.length + 1, name.length - end.length);
  return /^[2-9]$|^[1-9]\d$/.test(digits) ? Number(digits) : undefined;
}

/**
 * The same for the node with this number, of several on one machine. The first keeps the paths of a single one; of another only what
 * its agent and its pod runner have for themselves differs: images, claims, disks of the host, the pod network and the API are shared.
 */
export function memberPaths(paths: NodePaths, index: number): NodePaths {
  if (index === 1) return paths;
  const root = path.join(membersDir(paths), String(index));
  const privateDir = path.join(root, 'kubevirt-private');
  const kubeconfigOf = (name: string) => path.join(paths.apiDir, 'kubeconfigs', numbered(name, index));
  return {
    ...paths,
    kubeconfigs: { ...paths.kubeconfigs, 'virt-handler': kubeconfigOf('virt-handler'), node: kubeconfigOf('node') },
    kubeletDir: root,
    podsDir: path.join(root, 'pods'),
    shareDir: path.join(paths.runDir, numbered('kubevirt', index)),
    privateDir,
    agentSocket: path.join(privateDir, explainSocketName),
    agentAddress: path.join(paths.runDir, `${numbered('agent', index)}.json`),
  };
}

/** Holds a directory per node but the first, by its number. */
export function membersDir({ stateDir }: NodePaths): string {
  return path.join(stateDir, 'nodes');
}

/** What of the node's own lies directly in the state directory, or elsewhere behind a link of the owner. */
export function nodeDirectories(paths: NodePaths): string[] {
  const { apiDir, podsDir, imagesDir, runDir, privateDir, certificatesDir, labellerDir, libvirtCacheDir } = paths;
  const { exportCaDir, backupCaDir } = paths;
  const { claimsDir, snapshotsDir, hostDiskOwnersDir, podNetworkDir, sshDir, logDir, podLogsDir } = paths;
  const parts = [apiDir, podsDir, membersDir(paths), imagesDir, runDir, privateDir, certificatesDir, labellerDir];
  return [
    ...parts,
    exportCaDir,
    backupCaDir,
    path.dirname(libvirtCacheDir),
    claimsDir,
    snapshotsDir,
    hostDiskOwnersDir,
    podNetworkDir,
    sshDir,
    logDir,
    podLogsDir,
  ];
}

export function nodePaths(stateDir: string): NodePaths {
  const root = path.resolve(stateDir);
  const run = path.join(root, 'run');
  const kubeconfig = path.join(root, 'api', 'kubeconfig');
  const kubeconfigOf = (name: string) => path.join(root, 'api', 'kubeconfigs', name);
  return {
    stateDir: root,
    apiDir: path.join(root, 'api'),
    uploadTokenKey: path.join(root, 'api', 'upload-token.key'),
    kubeconfig,
    kubeconfigs: {
      admin: kubeconfig,
      'virt-controller': kubeconfigOf('virt-controller'),
      'virt-handler': kubeconfigOf('virt-handler'),
      node: kubeconfigOf('node'),
    },
    usersDir: path.join(root, 'api', 'users'),
    kubeletDir: root,
    podsDir: path.join(root, 'pods'),
    podLogsDir: path.join(run, 'pod-logs'),
    imagesDir: path.join(root, 'images'),
    hostDisksDir: path.join(root, 'host-disks'),
    claimsDir: path.join(root, 'claims'),
    snapshotsDir: path.join(root, 'snapshots'),
    hostDiskOwnersDir: path.join(root, 'host-disk-owners'),
    podNetworkDir: path.join(root, 'pod-network'),
    sshDir: path.join(root, 'ssh'),
    runDir: run,
    logDir: path.join(run, 'log'),
    shareDir: path.join(run, 'kubevirt'),
    privateDir: path.join(root, 'kubevirt-private'),
    agentSocket: path.join(root, 'kubevirt-private', explainSocketName),
    controllerSocket: path.join(root, 'kubevirt-private', 'virt-controller.sock'),
    certificatesDir: path.join(root, 'kubevirt-certificates'),
    exportCaDir: path.join(root, 'export-ca'),
    backupCaDir: path.join(root, 'backup-ca'),
    agentAddress: path.join(run, 'agent.json'),
    webAddress: path.join(run, 'web-url'),
    webViewAddress: path.join(run, 'web-view-url'),
    labellerDir: path.join(root, 'node-labeller'),
    libvirtCacheDir: path.join(root, 'cache', 'libvirt-of-node'),
  };
}
