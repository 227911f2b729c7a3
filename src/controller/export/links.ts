import type {
  ExportBackup,
  ExportFormat,
  ExportLink,
  ExportVolume,
  Pod,
  VirtualMachineExport,
} from '../../api/index.ts';
import type { Access } from './access.ts';
import { namesOf, restoredClaimName } from './names.ts';

type Links = NonNullable<NonNullable<VirtualMachineExport['status']>['links']>;

const formats: readonly (readonly [format: ExportFormat, variable: string])[] = [
  ['raw', 'RAW_URI'],
  ['gzip', 'RAW_GZIP_URI'],
  ['dir', 'DIR_URI'],
  ['tar.gz', 'ARCHIVE_URI'],
];

/** Where clients find what the pod serves: it says itself what that is, for it may be older than the source is. Pure. */
export function linksOf(vmExport: VirtualMachineExport, pod: Pod, access: Access): Links {
  const { namespace, name } = vmExport.metadata;
  const internal = link(
    'internal',
    `${namesOf(vmExport).service}.${namespace}.svc`,
    access.bundle ?? '',
    vmExport,
    pod,
  );
  const { external } = access;
  if (!external) return { internal };
  const host = `${external.host}${externalPath(namespace, name)}`;
  return { internal, external: link('external', host, external.cert, vmExport, pod) };
}

/** Of upstream's export proxy. */
export function externalPath(namespace: string | undefined, name: string): string {
  return `/api/export.kubevirt.io/v1/namespaces/${namespace}/virtualmachineexports/${name}`;
}

function link(
  side: 'internal' | 'external',
  host: string,
  cert: string,
  vmExport: VirtualMachineExport,
  pod: Pod,
): ExportLink {
  const env = environmentOf(pod);
  const url = (uri: string) => `https://${host}${uri}`;
  const manifest = (type: 'all' | 'auth-header-secret', uri: string | undefined) =>
    uri ? [{ type, url: url(`/${side}${uri}`) }] : [];
  const manifests = [
    ...manifest('all', env.get('EXPORT_VM_DEF_URI')),
    ...manifest('auth-header-secret', env.get('EXPORT_SECRET_DEF_URI')),
  ];
  const volumes = volumesOf(vmExport, pod, env, url);
  const backups = backupsOf(env, url);
  return {
    cert,
    ...(volumes.length > 0 && { volumes }),
    ...(backups.length > 0 && { backups }),
    ...(manifests.length > 0 && { manifests }),
  };
}

function environmentOf({ spec }: Pod): Map<string, string> {
  return new Map((spec.containers[0]?.env ?? []).flatMap(({ name, value }) => (value ? [[name, value] as const] : [])));
}

function volumesOf(
  vmExport: VirtualMachineExport,
  { spec }: Pod,
  env: ReadonlyMap<string, string>,
  url: (uri: string) => string,
): ExportVolume[] {
  const claims = new Map(
    (spec.volumes ?? []).flatMap(({ name, persistentVolumeClaim: claim }) =>
      claim ? [[name, claim.claimName] as const] : [],
    ),
  );
  return [...env].flatMap(([variable, path]) => {
    const prefix = /^(VOLUME\d+_EXPORT_)PATH$/.exec(variable)?.[1];
    const claim = claims.get(path.split('/').at(-1) ?? '');
    if (prefix === undefined || claim === undefined) return [];
    const found = formats.flatMap(([format, kind]) => {
      const uri = env.get(`${prefix}${kind}`);
      return uri ? [{ format, url: url(uri) }] : [];
    });
    return [{ name: shownName(vmExport, claim), formats: found }];
  });
}

function backupsOf(env: ReadonlyMap<string, string>, url: (uri: string) => string): ExportBackup[] {
  return [...env].flatMap(([variable, name]) => {
    const prefix = /^(BACKUP\d+_)BACKUP_PATH$/.exec(variable)?.[1];
    if (prefix === undefined) return [];
    const endpoints = (['data', 'map'] as const).flatMap((endpoint) => {
      const uri = env.get(`${prefix}${endpoint.toUpperCase()}_URI`);
      return uri ? [{ endpoint, url: url(uri) }] : [];
    });
    return [{ name, endpoints }];
  });
}

/** A claim that was made for the export is shown as the one that the snapshot is of. */
function shownName(vmExport: VirtualMachineExport, claim: string): string {
  const made = restoredClaimName(vmExport, '');
  const isSnapshot = vmExport.spec.source.kind === 'VirtualMachineSnapshot';
  return isSnapshot && claim.startsWith(made) ? claim.slice(made.length) : claim;
}
