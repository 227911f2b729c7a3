import { isRecord } from '../../base/index.ts';
import { type FieldError, invalidField } from '../errors.ts';
import { at, type JsonObject, objectsAt } from '../object.ts';

const kinds = ['exec', 'httpGet', 'tcpSocket', 'guestAgentPing'];
const figures = ['initialDelaySeconds', 'periodSeconds', 'timeoutSeconds', 'successThreshold', 'failureThreshold'];

/** What KubeVirt's webhook and, of the pod, Kubernetes itself say of probes (upstream: validateProbe in pkg/virt-api/webhooks/validating-webhook). */
export function checkProbes(spec: JsonObject, field: string): FieldError[] {
  return ['readinessProbe', 'livenessProbe'].flatMap((name) => {
    const probe = spec[name];
    if (probe === undefined || probe === null) return [];
    const path = `${field}.${name}`;
    if (!isRecord(probe)) return [invalidField(path, probe, 'must be an object')];
    return [...checkKind(probe, path, spec), ...checkFigures(probe, path, name === 'livenessProbe')];
  });
}

function checkKind(probe: JsonObject, path: string, spec: JsonObject): FieldError[] {
  const given = kinds.filter((kind) => probe[kind] !== undefined && probe[kind] !== null);
  const [kind = ''] = given;
  if (given.length !== 1) {
    const found = given.length === 0 ? 'has none' : `has ${given.join(', ')}`;
    return [invalidField(path, given, `must have exactly one of ${kinds.join(', ')}, ${found}`)];
  }
  const asked = `${path}.${kind}`;
  const wish = probe[kind];
  if (!isRecord(wish)) return [invalidField(asked, wish, 'must be an object')];
  if (kind === 'guestAgentPing') return [];
  if (kind === 'exec') {
    const command = wish.command;
    const isCommand = Array.isArray(command) && command.length > 0 && command.every((word) => typeof word === 'string');
    return isCommand ? [] : [invalidField(`${asked}.command`, command, 'must be a list of words, a program first')];
  }
  return [...checkPort(wish.port, `${asked}.port`), ...checkNetwork(spec, asked)];
}

function checkPort(port: unknown, path: string): FieldError[] {
  const isNumber = typeof port === 'number' && Number.isInteger(port) && port > 0 && port < 65_536;
  const isName = typeof port === 'string' && /^[a-z0-9-]{1,15}$/.test(port) && /[a-z]/.test(port);
  return isNumber || isName ? [] : [invalidField(path, port, 'must be a port from 1 to 65535, or the name of one')];
}

/** Ports are asked for at the address of the pod. */
function checkNetwork(spec: JsonObject, path: string): FieldError[] {
  const networks = objectsAt(spec, 'networks');
  const isOff = at(spec, 'domain', 'devices', 'autoattachPodInterface') === false;
  // Who names none gets the pod's.
  if (networks.length === 0 ? !isOff : networks.some(({ pod }) => isRecord(pod))) return [];
  return [invalidField(path, {}, 'is only allowed with an interface on the pod network')];
}

function checkFigures(probe: JsonObject, path: string, isLiveness: boolean): FieldError[] {
  const errors = figures.flatMap((name) => {
    const value = probe[name];
    const isRight = value === undefined || value === null || (Number.isInteger(value) && Number(value) >= 0);
    return isRight ? [] : [invalidField(`${path}.${name}`, value, 'must be a whole number, 0 or more')];
  });
  const { successThreshold } = probe;
  if (isLiveness && typeof successThreshold === 'number' && successThreshold > 1) {
    errors.push(invalidField(`${path}.successThreshold`, successThreshold, 'must be 1'));
  }
  return errors;
}
