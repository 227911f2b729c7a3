import path from 'node:path';
import { stringify } from 'yaml';
import { isRecord, jsonRecord, listOf, memberAt, textAt } from '../base/index.ts';
import { ExportError, type Handler } from './answer.ts';
import { requireGet } from './disk.ts';
import { readMounted, readMountedIfThere } from './mounted-files.ts';
import type { ExportedVolume } from './settings.ts';

/** For clients inside of the cluster, or outside. */
export type Side = 'internal' | 'external';

export interface ManifestOptions {
  readonly manifestDir: string;
  readonly tokenFile: string;
  readonly volumes: readonly ExportedVolume[];
}

type Json = Record<string, unknown>;

/** What makes the VM again elsewhere: the authority of this server, the VM, and DataVolumes that fetch its disks from here. */
export function vmHandler(side: Side, options: ManifestOptions): Handler {
  return async (exchange) => {
    requireGet(exchange);
    sendObjects(exchange, await vmManifests(side, options));
  };
}

/** The secret with the header that these DataVolumes show. */
export function secretHandler({ manifestDir, tokenFile }: ManifestOptions): Handler {
  return async (exchange) => {
    requireGet(exchange);
    const name = headerSecret(await readMounted(path.join(manifestDir, 'export-name')));
    const stringData = { token: `x-kubevirt-export-token:${await readMounted(tokenFile)}` };
    sendObjects(exchange, [{ apiVersion: 'v1', kind: 'Secret', metadata: { name }, stringData }]);
  };
}

const headerSecret = (exportName: string) => `header-secret-${exportName}`;

async function vmManifests(side: Side, { manifestDir, volumes }: ManifestOptions): Promise<Json[]> {
  const read = (name: string) => readMounted(path.join(manifestDir, name));
  const exportName = await read('export-name');
  const host = await read(`${side}_host`);
  const authority = parsed(await read(`${side}_ca_cm`), 'ConfigMap');
  const vm = parsed(await read('virtualmachine-manifest'), 'VirtualMachine');
  const source = (claim: string) => ({
    url: `https://${host}${gzipUriOf(claim, exportName, volumes)}`,
    certConfigMap: nameOf(authority),
    secretExtraHeaders: [headerSecret(exportName)],
  });
  const spec = isRecord(vm.spec) ? vm.spec : {};
  const templates = listOf(spec.dataVolumeTemplates).map((each) => (isRecord(each) ? withSource(each, source) : each));
  const filled = { ...spec, ...(templates.length > 0 && { dataVolumeTemplates: templates }) };
  const dataVolumes: Json[] = [];
  for (const claim of claimsOf(vm)) {
    const text = await readMountedIfThere(path.join(manifestDir, `dv-${claim}`));
    if (text !== undefined) {
      const dataVolume = parsed(text, 'DataVolume');
      dataVolumes.push({ ...withSource(dataVolume, source), ...typed('cdi.kubevirt.io/v1beta1', 'DataVolume') });
    }
  }
  return [
    { ...authority, ...typed('v1', 'ConfigMap') },
    { ...vm, ...typed('kubevirt.io/v1', 'VirtualMachine'), spec: filled },
    ...dataVolumes,
  ];
}

const typed = (apiVersion: string, kind: string) => ({ apiVersion, kind });

function parsed(text: string, kind: string): Json {
  const object = jsonRecord(text);
  if (object) return object;
  throw new ExportError('UNAVAILABLE', `the ${kind} of the export cannot be read: it is no JSON object`);
}

const nameOf = (object: Json) => textAt(object, 'metadata', 'name') ?? '';

/** Only where the controller has left the place for it; what a template does not take from here stays as it is. */
function withSource(dataVolume: Json, sourceOf: (claim: string) => object): Json {
  const spec = isRecord(dataVolume.spec) ? dataVolume.spec : {};
  if (memberAt(spec, 'source', 'http', 'url') !== '') return dataVolume;
  return { ...dataVolume, spec: { ...spec, source: { http: sourceOf(nameOf(dataVolume)) } } };
}

function claimsOf(vm: Json): string[] {
  const names = listOf(memberAt(vm, 'spec', 'template', 'spec', 'volumes')).flatMap((volume) => {
    const name = textAt(volume, 'dataVolume', 'name') ?? textAt(volume, 'persistentVolumeClaim', 'claimName') ?? '';
    return /^[a-z0-9][a-z0-9.-]*$/.test(name) ? [name] : [];
  });
  return [...new Set(names)];
}

/** The volume of the claim, or of the one that was made of its snapshot for this export. */
function gzipUriOf(claim: string, exportName: string, volumes: readonly ExportedVolume[]): string {
  const at = (name: string) => volumes.find(({ gzipUri }) => gzipUri?.split('/').at(-2) === name)?.gzipUri;
  const uri = at(claim) ?? at(`${exportName}-${claim}`);
  if (uri !== undefined) return uri;
  throw new ExportError('UNAVAILABLE', `disk ${claim} of the VM is not among the volumes of this export: make it anew`);
}

function sendObjects({ request, response }: Parameters<Handler>[0], objects: readonly Json[]): void {
  const isYaml = request.headers.accept === 'application/yaml';
  const list = { apiVersion: 'v1', kind: 'List', metadata: {}, items: objects };
  const text = isYaml ? objects.map((each) => `${stringify(each)}---\n`).join('') : JSON.stringify(list, null, 4);
  const body = Buffer.from(text);
  const type = isYaml ? 'application/yaml' : 'application/json';
  response.writeHead(200, { 'content-type': type, 'content-length': body.length, 'cache-control': 'no-store' });
  response.end(body);
}
