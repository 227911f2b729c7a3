import { isIP } from 'node:net';
import { isRecord, listOf } from '../../base/index.ts';
import { type FieldError, refusedField } from '../errors.ts';
import { at, type JsonObject, objectsAt, stringAt } from '../object.ts';
import { nameProblem } from './metadata.ts';
import { presentMembers, type SpecRules } from './spec-rules.ts';

/** What KubeVirt's webhook says of credentials, names and how a guest starts (upstream: vmi-create-admitter.go). */
export function checkAccess({ spec, field }: SpecRules): FieldError[] {
  const credentials = objectsAt(spec, 'accessCredentials').flatMap((each, index) =>
    checkCredential(each, `${field}.accessCredentials[${index}]`, spec),
  );
  return [...credentials, ...checkDns(spec, field), ...checkAccount(spec, field), ...checkStart(spec, field)];
}

/** A way of handing on, and the volume that it takes. */
const byVolume = { noCloud: 'cloudInitNoCloud', configDrive: 'cloudInitConfigDrive' } as const;

function checkCredential(credential: JsonObject, field: string, spec: JsonObject): FieldError[] {
  const found: FieldError[] = [];
  const refuse = (where: string, words: string) => found.push(refusedField(`${field}${where}`, `${field} ${words}`));
  const kinds = ['sshPublicKey', 'userPassword'].filter((kind) => isRecord(credential[kind]));
  for (const kind of kinds) {
    const own = credential[kind];
    const method = at(own, 'propagationMethod');
    for (const [name, source] of Object.entries(byVolume)) {
      const hasVolume = objectsAt(spec, 'volumes').some((volume) => isRecord(volume[source]));
      if (!isRecord(at(method, name)) || hasVolume) continue;
      const words = `requires a ${name} volume to exist when the ${name} propagationMethod is in use.`;
      refuse(`.${kind}.propagationMethod`, words);
    }
    const users = at(method, 'qemuGuestAgent');
    if (kind === 'sshPublicKey' && isRecord(users) && listOf(users.users).length === 0) {
      const where = `.${kind}.propagationMethod.qemuGuestAgent.users`;
      refuse(where, 'requires at least one user to be present in the users list');
    }
    const sources = at(own, 'source');
    const hasSource = isRecord(sources) && isRecord(sources.secret);
    if (!hasSource) refuse(`.${kind}.source`, 'must have exactly one source set');
    const methods = isRecord(method) ? presentMembers(method, []) : [];
    if (methods.length !== 1) refuse(`.${kind}.propagationMethod`, 'must have exactly one propagationMethod set');
  }
  if (kinds.length !== 1) refuse('', 'must have exactly one access credential type set');
  return found;
}

const dnsPolicies = ['ClusterFirstWithHostNet', 'ClusterFirst', 'Default', 'None', ''];

function checkDns(spec: JsonObject, field: string): FieldError[] {
  const policy = stringAt(spec, 'dnsPolicy') ?? '';
  const config = spec.dnsConfig;
  const path = `${field}.dnsConfig`;
  const found: FieldError[] = [];
  const refuse = (where: string, words: string) => found.push(refusedField(where, words));
  if (!dnsPolicies.includes(policy)) {
    const words = `DNSPolicy: ${policy} is not supported, valid values: [${dnsPolicies.join(' ')}]`;
    refuse(`${field}.dnsPolicy`, words);
  }
  if (policy === 'None' && !isRecord(config)) refuse(path, 'must provide `dnsConfig` when `dnsPolicy` is None');
  if (!isRecord(config)) return found;
  const [servers, searches] = [listOf(config.nameservers), listOf(config.searches)];
  if (policy === 'None' && servers.length === 0) {
    refuse('nameservers', 'must provide at least one DNS nameserver when `dnsPolicy` is None');
  }
  if (servers.length > 3) refuse('nameservers', `must not have more than 3 nameservers: [${servers.join(' ')}]`);
  for (const server of servers) {
    if (isIP(String(server)) === 0) refuse('nameservers', `must be valid IP address: ${server}`);
  }
  if (searches.length > 6) refuse('searchDomains', 'must not have more than 6 search paths');
  if (searches.join(' ').length > 256) {
    refuse('searchDomains', 'must not have more than 256 characters (including spaces) in the search list');
  }
  for (const search of searches) {
    const problem = nameProblem(String(search), 'subdomain');
    if (problem !== undefined) refuse('searchDomains', problem);
  }
  const isNameless = objectsAt(config, 'options').some((option) => !stringAt(option, 'name'));
  if (isNameless) refuse('options', 'Option.Name must not be empty');
  return found;
}

function checkAccount(spec: JsonObject, field: string): FieldError[] {
  const account = stringAt(spec, 'serviceAccountName') ?? '';
  if (account === '') return [];
  const path = `${field}.serviceAccountName`;
  const problem = nameProblem(account, 'subdomain');
  const found =
    problem === undefined ? [] : [refusedField(path, `${path} is not a valid service account name: ${problem}`)];
  const other = objectsAt(spec, 'volumes')
    .map((volume) => stringAt(volume, 'serviceAccount', 'serviceAccountName'))
    .find((name) => name !== undefined && name !== account);
  if (other === undefined) return found;
  const both = `spec.serviceAccountName "${account}" and serviceAccount volume "${other}"`;
  return [...found, refusedField(path, `${both} must reference the same service account`)];
}

function checkStart(spec: JsonObject, field: string): FieldError[] {
  if (spec.startStrategy !== 'Paused' || !isRecord(spec.livenessProbe)) return [];
  const path = `${field}.startStrategy`;
  const words = `either ${path} or ${field}.livenessProbe should be provided.Pausing VMI with LivenessProbe is not supported`;
  return [refusedField(path, words)];
}
