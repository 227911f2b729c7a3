import type { AccessRule } from '../../apiserver/index.ts';
import { kubevirtNamespace } from './node-objects.ts';

/** What an ordinary user of the node may do, and where. */
export interface UserRights {
  /** Absent: in all namespaces. */
  readonly namespace?: string;
  /** Look at objects, and no more. */
  readonly readOnly: boolean;
}

const read = ['get', 'list', 'watch'];
const write = ['create', 'delete', 'deletecollection', 'patch', 'update'];
const vmKinds = ['virtualmachines', 'virtualmachineinstances', 'virtualmachineinstancereplicasets'];
const migrations = 'virtualmachineinstancemigrations';
const pools = ['virtualmachinepools'];
const sizes = ['virtualmachineinstancetypes', 'virtualmachinepreferences'];
const snapshots = ['virtualmachinesnapshots', 'virtualmachinerestores'];
const clones = ['virtualmachineclones'];
const exports = ['virtualmachineexports'];
const backups = ['virtualmachinebackups', 'virtualmachinebackuptrackers'];
const scales = ['virtualmachineinstancereplicasets/scale'];
const ofVmi = (...names: string[]) => names.map((name) => `virtualmachineinstances/${name}`);
const ofVm = (...names: string[]) => names.map((name) => `virtualmachines/${name}`);

const subresources = 'subresources.kubevirt.io';

/** Kubernetes' role `view` with what KubeVirt adds to it (pkg/virt-operator/resource/generate/rbac/cluster.go). No Secrets. */
const view: readonly AccessRule[] = [
  { apiGroups: ['kubevirt.io'], resources: [...vmKinds, migrations, ...scales], verbs: read },
  { apiGroups: ['pool.kubevirt.io'], resources: [...pools, 'virtualmachinepools/scale'], verbs: read },
  { apiGroups: ['instancetype.kubevirt.io'], resources: sizes, verbs: read },
  { apiGroups: ['snapshot.kubevirt.io'], resources: [...snapshots, 'virtualmachinesnapshotcontents'], verbs: read },
  { apiGroups: ['clone.kubevirt.io'], resources: clones, verbs: read },
  { apiGroups: ['export.kubevirt.io'], resources: exports, verbs: read },
  { apiGroups: ['backup.kubevirt.io'], resources: backups, verbs: read },
  { apiGroups: ['cdi.kubevirt.io'], resources: ['datavolumes'], verbs: read },
  {
    apiGroups: [''],
    resources: [
      ...['pods', 'pods/log', 'events', 'persistentvolumeclaims', 'configmaps', 'services', 'endpoints'],
      ...['serviceaccounts', 'resourcequotas', 'limitranges'],
    ],
    verbs: read,
  },
  { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: read },
  { apiGroups: [''], resources: ['namespaces'], verbs: ['get'] },
  { apiGroups: ['apps'], resources: ['controllerrevisions'], verbs: read },
  { apiGroups: ['policy'], resources: ['poddisruptionbudgets'], verbs: read },
  { apiGroups: ['metrics.k8s.io'], resources: ['pods'], verbs: ['get', 'list'] },
  {
    apiGroups: [subresources],
    resources: [
      ...ofVmi('guestosinfo', 'filesystemlist', 'userlist'),
      ...ofVmi('sev/fetchcertchain', 'sev/querylaunchmeasurement'),
      ...ofVm('expand-spec'),
    ],
    verbs: ['get'],
  },
  // It changes nothing: the VM that is expanded comes with the question.
  { apiGroups: [subresources], resources: ['expand-vm-spec'], verbs: ['update'] },
];

/** `edit` and `kubevirt.io:migrate`; pods are virt-controller's, and a user makes none. */
const edit: readonly AccessRule[] = [
  { apiGroups: ['kubevirt.io'], resources: vmKinds, verbs: write },
  { apiGroups: ['kubevirt.io'], resources: scales, verbs: ['patch', 'update'] },
  { apiGroups: ['kubevirt.io'], resources: [migrations], verbs: write },
  { apiGroups: ['pool.kubevirt.io'], resources: pools, verbs: write },
  { apiGroups: ['pool.kubevirt.io'], resources: ['virtualmachinepools/scale'], verbs: ['patch', 'update'] },
  { apiGroups: ['instancetype.kubevirt.io'], resources: sizes, verbs: write },
  { apiGroups: ['snapshot.kubevirt.io'], resources: snapshots, verbs: write },
  { apiGroups: ['clone.kubevirt.io'], resources: clones, verbs: write },
  { apiGroups: ['export.kubevirt.io'], resources: exports, verbs: write },
  { apiGroups: ['backup.kubevirt.io'], resources: backups, verbs: write },
  { apiGroups: ['cdi.kubevirt.io'], resources: ['datavolumes'], verbs: write },
  { apiGroups: ['upload.cdi.kubevirt.io'], resources: ['uploadtokenrequests'], verbs: ['create'] },
  { apiGroups: [''], resources: ['persistentvolumeclaims', 'configmaps', 'services'], verbs: write },
  { apiGroups: [''], resources: ['secrets'], verbs: [...read, ...write] },
  {
    apiGroups: [subresources],
    resources: [...ofVmi('console', 'vnc', 'vnc/screenshot', 'portforward', 'usbredir'), ...ofVm('portforward')],
    verbs: ['get'],
  },
  {
    apiGroups: [subresources],
    resources: [
      ...ofVmi('pause', 'unpause', 'addvolume', 'removevolume', 'freeze', 'unfreeze', 'softreboot', 'reset'),
      ...ofVmi('evacuate/cancel', 'sev/setupsession', 'sev/injectlaunchsecret'),
      ...ofVm('start', 'stop', 'restart', 'addvolume', 'removevolume', 'migrate', 'evacuate/cancel'),
      ...ofVm('memorydump', 'removememorydump'),
    ],
    verbs: ['update'],
  },
];

/** Of no namespace; upstream gives these to everybody who is known. */
const shared: readonly AccessRule[] = [
  {
    apiGroups: ['instancetype.kubevirt.io'],
    resources: ['virtualmachineclusterinstancetypes', 'virtualmachineclusterpreferences'],
    verbs: read,
  },
  { apiGroups: ['kubevirt.io'], resources: ['kubevirts'], verbs: ['get', 'list'] },
  { apiGroups: ['storage.k8s.io'], resources: ['storageclasses'], verbs: read },
];

/** Who has all namespaces has to find them, and the nodes of VMs. */
const ofAllNamespaces: readonly AccessRule[] = [
  { apiGroups: [''], resources: ['namespaces', 'nodes'], verbs: read },
  { apiGroups: ['metrics.k8s.io'], resources: ['nodes'], verbs: ['get', 'list'] },
];

/** What is in them belongs to the node itself: whom its agent trusts, above all. */
export const systemNamespaces: readonly string[] = [kubevirtNamespace, 'kube-system', 'kube-node-lease'];

/** As rules of a ClusterRole, each with the namespaces that it holds in. Pure. */
export function userRules({ namespace, readOnly }: UserRights): readonly AccessRule[] {
  const more = readOnly ? [] : edit;
  if (namespace === undefined) {
    const outside = more.map((rule) => ({ ...rule, exceptNamespaces: systemNamespaces }));
    return [...view, ...outside, ...shared, ...ofAllNamespaces];
  }
  return [...[...view, ...more].map((rule) => ({ ...rule, namespaces: [namespace] })), ...shared];
}
