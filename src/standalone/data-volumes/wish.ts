import {
  type DataVolume,
  type KubeObject,
  annotations as known,
  type OwnerReference,
  type PersistentVolumeClaim,
} from '../../api/index.ts';
import { isRecord, memberAt } from '../../base/index.ts';
import { type Checksum, parseChecksum } from '../disk-images/index.ts';

/** With what a claim is to be filled. */
export type Wish =
  | {
      readonly kind: 'http';
      readonly url: string;
      readonly checksum: Checksum | undefined;
      /** Secret with accessKeyId and secretKey. */
      readonly secret: string | undefined;
      /** ConfigMap with authorities. */
      readonly authorities: string | undefined;
      readonly headers: readonly string[];
      readonly secretHeaders: readonly string[];
    }
  | { readonly kind: 'blank' | 'upload' }
  | { readonly kind: 'registry'; readonly image: string }
  /** The node's storage fills it when it makes the volume: the claim's `dataSource`. */
  | { readonly kind: 'clone' | 'snapshot'; readonly namespace: string; readonly name: string }
  /** Somebody else made the claim for the DataVolume, with what it is to begin with: whatever the DataVolume says itself. */
  | { readonly kind: 'populated' }
  | { readonly kind: 'reference'; readonly namespace: string; readonly name: string }
  | { readonly kind: 'refused'; readonly why: string };

/** CDI's words: phases, and reasons of events. An upload is ready for whatever comes. */
export const doings = {
  Import: {
    queued: 'ImportScheduled',
    running: 'ImportInProgress',
    succeeded: 'ImportSucceeded',
    failed: 'ImportFailed',
  },
  Clone: { queued: 'CloneScheduled', running: 'CloneInProgress', succeeded: 'CloneSucceeded', failed: 'CloneFailed' },
  Upload: { queued: 'UploadReady', running: 'UploadReady', succeeded: 'UploadSucceeded', failed: 'UploadFailed' },
} as const;

export type Doing = keyof typeof doings;

export const annotations = {
  podPhase: 'cdi.kubevirt.io/storage.pod.phase',
  podReady: 'cdi.kubevirt.io/storage.pod.ready',
  podRestarts: 'cdi.kubevirt.io/storage.pod.restarts',
  uploadTarget: 'cdi.kubevirt.io/storage.upload.target',
  importSource: 'cdi.kubevirt.io/storage.import.source',
  importEndpoint: 'cdi.kubevirt.io/storage.import.endpoint',
  contentType: 'cdi.kubevirt.io/storage.contentType',
  cloneRequest: 'k8s.io/CloneRequest',
  running: 'cdi.kubevirt.io/storage.condition.running',
  runningMessage: 'cdi.kubevirt.io/storage.condition.running.message',
  runningReason: 'cdi.kubevirt.io/storage.condition.running.reason',
} as const;

/** The API server lets no other spec in; one of an older server, or of a volume that was restored, may differ. */
export function wishOf({ metadata, spec }: DataVolume): Wish {
  const source = memberAt(spec, 'source');
  const reference = memberAt(spec, 'sourceRef');
  const text = (...path: string[]) => textOf(memberAt(source, ...path));
  const list = (...path: string[]) => listOf(memberAt(source, ...path));
  const here = metadata.namespace ?? '';
  if (isRecord(reference)) {
    return { kind: 'reference', namespace: textOf(reference.namespace) ?? here, name: textOf(reference.name) ?? '' };
  }
  if (!isRecord(source)) return { kind: 'refused', why: 'it has no source: make another one' };
  if (isRecord(source.blank)) return { kind: 'blank' };
  if (isRecord(source.upload)) return { kind: 'upload' };
  if (isRecord(source.pvc)) {
    return { kind: 'clone', namespace: text('pvc', 'namespace') ?? here, name: text('pvc', 'name') ?? '' };
  }
  if (isRecord(source.snapshot)) {
    return { kind: 'snapshot', namespace: text('snapshot', 'namespace') ?? here, name: text('snapshot', 'name') ?? '' };
  }
  if (isRecord(source.registry)) {
    return { kind: 'registry', image: (text('registry', 'url') ?? '').replace(/^docker:\/\//, '') };
  }
  if (isRecord(source.http)) {
    const checksum = text('http', 'checksum');
    const expected = checksum === undefined ? undefined : parseChecksum(checksum);
    if (checksum !== undefined && !expected) {
      return { kind: 'refused', why: 'source.http.checksum is none: make another DataVolume' };
    }
    return {
      kind: 'http',
      url: text('http', 'url') ?? '',
      checksum: expected,
      secret: text('http', 'secretRef'),
      authorities: text('http', 'certConfigMap'),
      headers: list('http', 'extraHeaders'),
      secretHeaders: list('http', 'secretExtraHeaders'),
    };
  }
  return { kind: 'refused', why: `nothing here fills a claim from ${Object.keys(source).join(', ')}` };
}

/** A claim that was made for this DataVolume, as a restore does, and that is nobody else's. */
export function isPopulatedFor({ metadata }: DataVolume, claim: PersistentVolumeClaim | undefined): boolean {
  if (claim?.metadata.annotations?.[known.populatedFor] !== metadata.name) return false;
  const owner = claim.metadata.ownerReferences?.find(({ controller }) => controller);
  return owner === undefined || owner.uid === metadata.uid;
}

/** Of a DataSource: what it stands for. */
export function referredWish({ spec, status, metadata }: KubeObject & { spec?: unknown; status?: unknown }): Wish {
  const source = memberAt(status, 'source') ?? memberAt(spec, 'source');
  const claim = memberAt(source, 'pvc');
  const snapshot = memberAt(source, 'snapshot');
  const here = metadata.namespace ?? '';
  const named = (of: unknown) => ({
    namespace: textOf(memberAt(of, 'namespace')) ?? here,
    name: textOf(memberAt(of, 'name')) ?? '',
  });
  if (isRecord(claim)) return { kind: 'clone', ...named(claim) };
  if (isRecord(snapshot)) return { kind: 'snapshot', ...named(snapshot) };
  return { kind: 'refused', why: `DataSource ${metadata.name} names neither a claim nor a snapshot` };
}

const textOf = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);
const listOf = (value: unknown) =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : [];

export function doingOf({ kind }: Pick<Wish, 'kind'>): Doing {
  if (kind === 'upload') return 'Upload';
  return ['clone', 'snapshot', 'reference', 'populated'].includes(kind) ? 'Clone' : 'Import';
}

const askedOf = (spec: unknown) => memberAt(spec, 'pvc') ?? memberAt(spec, 'storage');

/** What it asks for itself; undefined: it is to be as large as what it is a copy of. */
export function sizeOf(dataVolume: DataVolume | undefined): unknown {
  return memberAt(askedOf(dataVolume?.spec), 'resources', 'requests', 'storage');
}

/** Of a volume that exists, which the claim is to have. */
export function volumeNameOf(dataVolume: DataVolume | undefined): string | undefined {
  return textOf(memberAt(askedOf(dataVolume?.spec), 'volumeName'));
}

/** The claim that the DataVolume fills, with what KubeVirt and virtctl read on it. `sizeBytes`: of what is copied, where no size is asked for. */
export function claimFor(dataVolume: DataVolume, wish: Wish, sizeBytes: number | undefined): PersistentVolumeClaim {
  const { metadata, spec } = dataVolume;
  const asked = askedOf(spec);
  const given = isRecord(asked) ? asked : {};
  const { 'kubectl.kubernetes.io/last-applied-configuration': _, ...kept } = metadata.annotations ?? {};
  const labels = Object.entries(metadata.labels ?? {}).filter(([key]) => key.startsWith('instancetype.kubevirt.io/'));
  const requests = sizeOf(dataVolume) ?? sizeBytes;
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: metadata.name,
      ...(metadata.namespace !== undefined && { namespace: metadata.namespace }),
      labels: {
        ...Object.fromEntries(labels),
        app: 'containerized-data-importer',
        'app.kubernetes.io/component': 'storage',
        'app.kubernetes.io/managed-by': 'cdi-controller',
      },
      annotations: { ...kept, [annotations.contentType]: 'kubevirt', ...sourceAnnotations(wish) },
      ownerReferences: [ownerOf(dataVolume)],
    },
    spec: {
      ...given,
      accessModes: listOf(given.accessModes).length > 0 ? listOf(given.accessModes) : ['ReadWriteOnce'],
      volumeMode: textOf(given.volumeMode) ?? 'Filesystem',
      resources: { requests: { storage: typeof requests === 'number' ? requests : String(requests) } },
      ...(wish.kind === 'snapshot' && {
        dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: wish.name },
      }),
      ...(wish.kind === 'clone' && { dataSource: { kind: 'PersistentVolumeClaim', name: wish.name } }),
    },
  };
}

export function ownerOf({ metadata: { name, uid = '' } }: DataVolume): OwnerReference {
  const whole = { apiVersion: 'cdi.kubevirt.io/v1beta1', kind: 'DataVolume', name, uid };
  return { ...whole, controller: true, blockOwnerDeletion: true };
}

function sourceAnnotations(wish: Wish): Record<string, string> {
  switch (wish.kind) {
    case 'http':
      return { [annotations.importSource]: 'http', [annotations.importEndpoint]: wish.url };
    case 'registry':
      return { [annotations.importSource]: 'registry', [annotations.importEndpoint]: `docker://${wish.image}` };
    case 'blank':
      return { [annotations.importSource]: 'none', [annotations.importEndpoint]: '' };
    case 'upload':
      return { [annotations.uploadTarget]: '' };
    case 'clone':
      return { [annotations.cloneRequest]: `${wish.namespace}/${wish.name}` };
    default:
      return {};
  }
}
