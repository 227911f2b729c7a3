import {
  controllerOf,
  type KubeObject,
  keyOf,
  labels,
  type Pod,
  type ResourceType,
  resources,
  type Service,
  type VirtualMachine,
  type VirtualMachineExport,
} from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { issue } from '../../certificates/index.ts';
import type { MachineDefaults } from '../../instancetype/index.ts';
import { createOrFind, isKubeError, type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { Executors, ObjectEvent, Outcome, ReadYourWrites, Step, StepContext } from '../../reconcile/index.ts';
import type { Authority } from '../authority.ts';
import { type Lookup, referredBy } from '../instancetypes/index.ts';
import { controllerReference } from '../owned/index.ts';
import { renderClaim } from './claims.ts';
import type { ExportStepArgs } from './decide.ts';
import { type ManifestConfigMap, renderManifest } from './manifest.ts';
import { namesOf } from './names.ts';
import type { PresentExport } from './observation.ts';
import { certificateVolume, type ExporterSettings, renderExporterPod, renderService } from './pod.ts';
import { tokenSecretOf } from './status.ts';

export interface ExecuteContext extends StepContext {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'delete' | 'update' | 'patch'>;
  readonly ownPods: ReadYourWrites<Pod>;
  readonly services: ReadYourWrites<Service>;
  readonly lookup: Pick<Lookup, 'find'>;
  readonly authority: Pick<Authority, 'pair'>;
  readonly backupAuthority: Pick<Authority, 'bundle'>;
  readonly settings: ExporterSettings;
  readonly machineDefaults: MachineDefaults;
  /** So many letters and digits that nobody guesses. */
  readonly randomText: (length: number) => string;
  readonly observation: PresentExport;
}

const done: Outcome = { kind: 'done' };
const overtaken: Outcome = { kind: 'wait', afterMs: 1_000, reason: 'the object has changed meanwhile' };
/** Upstream's. */
const tokenLength = 20;
const dayMs = 24 * 3_600_000;

export const executors: Executors<ExportStepArgs, ExecuteContext> = {
  createService: async (_step, context) => {
    const { services, observation } = context;
    const made = await create(resources.services, renderService(observation.vmExport), context);
    services.created(keyOf(made.object), made.object);
    return created(made.isNew, 'ServiceCreated', `Created service ${keyOf(made.object)}`);
  },
  createToken,
  createClaims: async (_step, context) => {
    const { vmExport, source } = context.observation;
    for (const wanted of source.wanted)
      await create(resources.persistentVolumeClaims, renderClaim(vmExport, wanted), context);
    return done;
  },
  createManifest,
  createPod,
  createCertificate,
  deletePod: async ({ pod }: Step<ExportStepArgs, 'deletePod'>, { client, signal }) => {
    await writeIfThere(client.delete(resources.pods, pod.metadata, { uid: pod.metadata.uid, signal }));
    return done;
  },
  deleteExport: async (_step, { client, observation: { vmExport }, signal }) => {
    const { uid } = vmExport.metadata;
    await writeIfThere(client.delete(resources.virtualMachineExports, vmExport.metadata, { uid, signal }));
    return done;
  },
};

function created(isNew: boolean, reason: string, message: string): Outcome {
  const event: ObjectEvent = { type: 'Normal', reason, message };
  return isNew ? { kind: 'done', events: [event] } : done;
}

/** What there is already has to be the export's: another one's is an error. */
async function create<T extends KubeObject>(
  type: ResourceType,
  wanted: T,
  { client, observation, signal }: ExecuteContext,
): Promise<{ readonly object: T; readonly isNew: boolean }> {
  const isOwn = (existing: T) => controllerOf(existing)?.uid === observation.uid;
  return createOrFind(client, type, wanted, isOwn, { signal });
}

/** Of an export that names a secret it is its user's. Nobody reads secrets here: one that is there stays. */
async function createToken(
  _step: object,
  { client, observation, randomText, signal }: ExecuteContext,
): Promise<Outcome> {
  const { vmExport } = observation;
  if (vmExport.spec.tokenSecretRef) return done;
  const name = tokenSecretOf(vmExport);
  const secret = ownedSecret(name, vmExport, controllerReference(resources.virtualMachineExports, vmExport), {
    type: 'Opaque',
    data: { token: Buffer.from(randomText(tokenLength)).toString('base64') },
  });
  const isNew = await createSecret(secret, client, signal);
  return created(isNew, 'SecretCreated', `Created default secret ${vmExport.metadata.namespace}/${name}`);
}

/** Of the VM as it is now: an earlier pod's may be older. */
async function createManifest(_step: object, context: ExecuteContext): Promise<Outcome> {
  const { client, observation, signal } = context;
  const { vmExport, source, access } = observation;
  if (!source.vm) return done;
  const vm = await wholeVm(source.vm, context);
  if ('refused' in vm)
    return { kind: 'failed', error: { severity: 'retry', code: 'NO_MANIFEST', message: vm.refused } };
  const wanted = renderManifest(vmExport, vm, source.volumes, access);
  const { object, isNew } = await create<ManifestConfigMap>(resources.configMaps, wanted, context);
  if (!isNew && !sameJson(object.data, wanted.data))
    await client.update(resources.configMaps, { ...object, data: wanted.data }, { signal });
  return created(isNew, 'DataManifestCreated', `Created exporter data manifest ${keyOf(object)}`);
}

type SourceVm = NonNullable<PresentExport['source']['vm']>;

/** With all that it refers to in it: instance types of this cluster are not exported. */
async function wholeVm(
  { metadata, spec, status }: SourceVm,
  { lookup, machineDefaults, signal }: ExecuteContext,
): Promise<SourceVm | { readonly refused: string }> {
  const kind = { apiVersion: 'kubevirt.io/v1', kind: resources.virtualMachines.kind };
  const vm: VirtualMachine = { ...kind, metadata, spec, ...(status && { status }) };
  const referred = await referredBy(vm, lookup, machineDefaults, signal);
  if (referred.kind === 'refused') return { refused: `no manifest of the VM can be made: ${referred.refusal.message}` };
  return referred.kind === 'found' ? referred.whole : vm;
}

/** An earlier controller's, upstream's perhaps, has no label by which it would be seen here. */
async function createPod(_step: object, context: ExecuteContext): Promise<Outcome> {
  const { client, ownPods, observation, settings, randomText, signal } = context;
  const { vmExport, source } = observation;
  const names = {
    certificateSecret: `secret-${randomText(10).toLowerCase()}`,
    tokenSecret: tokenSecretOf(vmExport),
  };
  const launchers = source.backup && (await context.backupAuthority.bundle(signal));
  const wanted = renderExporterPod(observation, { ...names, ...(launchers && { launchers }) }, settings);
  const { object, isNew } = await create(resources.pods, wanted, context);
  if (object.metadata.deletionTimestamp) return overtaken;
  ownPods.created(keyOf(object), object);
  if (!isNew && object.metadata.labels?.[labels.app] === undefined) {
    const body = { metadata: { uid: object.metadata.uid, labels: { [labels.app]: 'virt-exporter' } } };
    await writeIfThere(client.patch(resources.pods, object.metadata, body, 'merge', { signal }));
  }
  return created(isNew, 'ExporterPodCreated', `Created exporter pod ${keyOf(object)}`);
}

async function createCertificate(_step: object, context: ExecuteContext): Promise<Outcome> {
  const { client, authority, ownPods, observation, signal } = context;
  const { vmExport, certificates } = observation;
  const { namespace } = vmExport.metadata;
  const names = namesOf(vmExport);
  const pod = ownPods.get(`${namespace}/${names.pod}`);
  const volume = pod?.spec.volumes?.find(({ name }) => name === certificateVolume);
  const secretName = volume?.secret?.secretName;
  if (!pod || secretName === undefined) return overtaken;
  const service = `${names.service}.${namespace}`;
  const pair = await issue(await authority.pair(), {
    // Longer ones are no names of X.520; clients look at the others.
    commonName: `${service}.pod.cluster.local`.slice(0, 64),
    usage: 'serverAuth',
    hosts: [names.service, service, `${service}.svc`, `${service}.svc.cluster.local`],
    days: certificates.durationMs / dayMs,
  });
  const secret = ownedSecret(secretName, vmExport, controllerReference({ ...resources.pods }, pod), {
    type: 'kubernetes.io/tls',
    data: { 'tls.crt': base64(pair.cert), 'tls.key': base64(pair.key) },
  });
  const isNew = await createSecret(secret, client, signal);
  return created(isNew, 'SecretCreated', 'Created exporter pod secret');
}

const base64 = (text: string) => Buffer.from(text).toString('base64');

function ownedSecret(
  name: string,
  { metadata: { namespace } }: VirtualMachineExport,
  owner: ReturnType<typeof controllerReference>,
  content: { readonly type: string; readonly data: Readonly<Record<string, string>> },
): KubeObject {
  const metadata = { name, ...(namespace && { namespace }), ownerReferences: [owner] };
  return { apiVersion: 'v1', kind: resources.secrets.kind, metadata, ...content } as KubeObject;
}

async function createSecret(
  secret: KubeObject,
  client: Pick<KubeClient, 'create'>,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await client.create(resources.secrets, secret, { signal });
    return true;
  } catch (error) {
    if (isKubeError(error, 'ALREADY_EXISTS')) return false;
    throw error;
  }
}
