import {
  type Container,
  labels,
  type Pod,
  resources,
  type Service,
  type VirtualMachineBackup,
  type VirtualMachineExport,
} from '../../api/index.ts';
import { rfc3339 } from '../../base/index.ts';
import { controllerReference } from '../owned/index.ts';
import { labelValue } from '../snapshot-source/index.ts';
import { namesOf, volumeNameOf } from './names.ts';
import type { CertificateTimes, PresentExport, SourceVolume } from './observation.ts';

export interface ExporterSettings {
  readonly image: string;
  readonly imagePullPolicy: string;
  /** Empty: none. */
  readonly imagePullSecret: string;
  readonly resources: NonNullable<Container['resources']>;
}

export interface ExporterNames {
  readonly certificateSecret: string;
  readonly tokenSecret: string;
  /** PEM of who signs the certificates of launchers, of a backup. */
  readonly launchers?: string;
}

/** User and group of disks, and of the launchers that write them. */
const diskUser = 107;
const port = 8443;
/** Upstream's, in nanoseconds. */
export const certificateTimes = 'kubevirt.io/export.certParameters';
export const certificateVolume = 'certificates';

export function certificateText({ durationMs, renewBeforeMs }: CertificateTimes): string {
  return JSON.stringify({ Duration: durationMs * 1e6, RenewBefore: renewBeforeMs * 1e6 });
}

/** Upstream's pod (createExporterPodManifest in export.go), as the user of the disks, without a token of the API, and with a label by which it is followed here. */
export function renderExporterPod(
  { vmExport, source, now, expiresAt, certificates }: PresentExport,
  names: ExporterNames,
  settings: ExporterSettings,
): Pod {
  const { metadata } = vmExport;
  const own = namesOf(vmExport);
  const isVm = source.vm !== undefined;
  const rotates = now.getTime() + certificates.durationMs - certificates.renewBeforeMs;
  const deadline = new Date(Math.min(rotates, expiresAt.getTime()));
  const volumes = source.volumes.map(inPod);
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: own.pod,
      ...(metadata.namespace && { namespace: metadata.namespace }),
      labels: { ...metadata.labels, [labels.app]: 'virt-exporter', [labels.exportService]: own.label },
      annotations: { ...metadata.annotations, [certificateTimes]: certificateText(certificates) },
      ownerReferences: [controllerReference(resources.virtualMachineExports, vmExport)],
    },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: {
        ...{ runAsNonRoot: true, runAsUser: diskUser, runAsGroup: diskUser, fsGroup: diskUser },
        fsGroupChangePolicy: 'OnRootMismatch',
        seccompProfile: { type: 'RuntimeDefault' },
      },
      ...(settings.imagePullSecret && { imagePullSecrets: [{ name: settings.imagePullSecret }] }),
      ...(source.backup && source.vmName !== undefined && { affinity: besideLauncher(source.vmName) }),
      containers: [
        {
          name: 'exporter',
          image: settings.image,
          imagePullPolicy: settings.imagePullPolicy,
          command: ['/usr/bin/virt-exportserver'],
          env: [
            { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
            { name: 'CERT_FILE', value: '/cert/tls.crt' },
            { name: 'KEY_FILE', value: '/cert/tls.key' },
            { name: 'TOKEN_FILE', value: '/token/token' },
            { name: 'DEADLINE', value: rfc3339(deadline) },
            ...(isVm ? [{ name: 'EXPORT_VM_DEF_URI', value: '/manifests/all' }] : []),
            // Its answer has the name of the export, which is among the manifests.
            ...(isVm ? [{ name: 'EXPORT_SECRET_DEF_URI', value: '/manifests/secret' }] : []),
            ...volumes.flatMap(({ path, claim, isDisk }, index) => addressesOf(index, path, claim, isDisk)),
            ...(source.backup ? backupVariables(source.backup, names.launchers ?? '') : []),
          ],
          ports: [{ name: 'export', containerPort: port, protocol: 'TCP' }],
          readinessProbe: {
            httpGet: { scheme: 'HTTPS', path: '/exportready', port },
            initialDelaySeconds: 1,
            periodSeconds: 5,
          },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          resources: settings.resources,
          volumeMounts: [
            { name: certificateVolume, mountPath: '/cert', readOnly: true },
            { name: 'token', mountPath: '/token', readOnly: true },
            ...(isVm ? [{ name: 'manifest-data', mountPath: '/manifest_data', readOnly: true }] : []),
            ...volumes.flatMap(({ name, path, isBlock }) =>
              isBlock ? [] : [{ name, mountPath: path, readOnly: true }],
            ),
          ],
          volumeDevices: volumes.flatMap(({ name, path, isBlock }) => (isBlock ? [{ name, devicePath: path }] : [])),
        },
      ],
      volumes: [
        { name: certificateVolume, secret: { secretName: names.certificateSecret } },
        { name: 'token', secret: { secretName: names.tokenSecret } },
        ...(isVm ? [{ name: 'manifest-data', configMap: { name: own.manifest } }] : []),
        ...volumes.map(({ name, claim }) => ({ name, persistentVolumeClaim: { claimName: claim } })),
      ],
    },
  };
}

function inPod({ claim: { metadata, spec }, isDisk }: SourceVolume) {
  const name = volumeNameOf(metadata.name);
  const isBlock = spec.volumeMode === 'Block';
  return { name, isBlock, isDisk, claim: metadata.name, path: `${isBlock ? '/dev' : ''}/export-volumes/${name}` };
}

function addressesOf(index: number, path: string, claim: string, isDisk: boolean) {
  const variable = (kind: string, value: string) => ({ name: `VOLUME${index}_EXPORT_${kind}`, value });
  const at = `/volumes/${claim}`;
  return [
    variable('PATH', path),
    ...(isDisk
      ? [variable('RAW_URI', `${at}/disk.img`), variable('RAW_GZIP_URI', `${at}/disk.img.gz`)]
      : [variable('ARCHIVE_URI', `${at}/disk.tar.gz`), variable('DIR_URI', `${at}/dir/`)]),
  ];
}

/** Upstream's (backup-source.go). */
function backupVariables({ metadata, status = {} }: VirtualMachineBackup, launchers: string) {
  const variable = (name: string, value: string) => ({ name, value });
  const ofVolumes = (status.includedVolumes ?? []).flatMap(({ volumeName }, index) => [
    variable(`BACKUP${index}_BACKUP_PATH`, volumeName),
    variable(`BACKUP${index}_DATA_URI`, `/exports/${volumeName}/data`),
    variable(`BACKUP${index}_MAP_URI`, `/exports/${volumeName}/map`),
  ]);
  return [
    ...ofVolumes,
    variable('BACKUP_CACERT', launchers),
    variable('BACKUP_UID', metadata.uid ?? ''),
    variable('BACKUP_TYPE', status.type ?? 'Full'),
    ...(status.checkpointName === undefined ? [] : [variable('BACKUP_CHECKPOINT', status.checkpointName)]),
  ];
}

/** All bytes come from there. */
function besideLauncher(vmName: string) {
  const matchLabels = { [labels.app]: 'virt-launcher', [labels.vmName]: labelValue(vmName) };
  const podAffinityTerm = { labelSelector: { matchLabels }, topologyKey: 'kubernetes.io/hostname' };
  return { podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm }] } };
}

/** Upstream's (createServiceManifest in export.go). */
export function renderService(vmExport: VirtualMachineExport): Service {
  const { metadata } = vmExport;
  const names = namesOf(vmExport);
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: names.service,
      ...(metadata.namespace && { namespace: metadata.namespace }),
      labels: { ...metadata.labels, [labels.app]: 'virt-exporter' },
      ...(metadata.annotations && { annotations: metadata.annotations }),
      ownerReferences: [controllerReference(resources.virtualMachineExports, vmExport)],
    },
    spec: {
      selector: { [labels.exportService]: names.label },
      ports: [{ name: 'export', protocol: 'TCP', port: 443, targetPort: port }],
    },
  };
}
