import { isIP } from 'node:net';
import { duplicateField, type FieldError, invalidField, requiredField, unsupportedField } from '../errors.ts';
import { type ApiObject, objectsAt, stringAt } from '../object.ts';
import { nameProblem } from './metadata.ts';

const types = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'];
const protocols = ['SCTP', 'TCP', 'UDP'];

/** What Kubernetes refuses of a Service whose fields have the right form (pkg/apis/core/validation). */
export function validateService(service: ApiObject): FieldError[] {
  const type = stringAt(service, 'spec', 'type') ?? 'ClusterIP';
  if (!types.includes(type)) return [unsupportedField('spec.type', type, types)];
  const clusterIp = stringAt(service, 'spec', 'clusterIP') ?? '';
  const isHeadless = clusterIp === 'None';
  if (clusterIp !== '' && !isHeadless && isIP(clusterIp) === 0) {
    return [invalidField('spec.clusterIP', clusterIp, "must be empty, 'None', or a valid IP address")];
  }
  const ports = objectsAt(service, 'spec', 'ports');
  if (ports.length === 0) return isHeadless || type === 'ExternalName' ? [] : [requiredField('spec.ports')];
  const seen = new Set<string>();
  return ports.flatMap((port, index) => {
    const field = `spec.ports[${index}]`;
    const name = String(port.name ?? '');
    const keys = [`${port.protocol}/${port.port}`, ...(name === '' ? [] : [name])];
    const isTwice = keys.some((key) => seen.has(key));
    for (const key of keys) seen.add(key);
    return [
      ...(isTwice ? [duplicateField(field, { name, port: port.port, protocol: port.protocol })] : []),
      ...(name === '' && ports.length > 1 ? [requiredField(`${field}.name`)] : []),
      ...validatePort(port.port, `${field}.port`),
      ...validateTarget(port.targetPort, `${field}.targetPort`),
      ...(protocols.includes(String(port.protocol))
        ? []
        : [unsupportedField(`${field}.protocol`, port.protocol, protocols)]),
    ];
  });
}

function validatePort(port: unknown, field: string): FieldError[] {
  if (port === undefined) return [requiredField(field)];
  if (Number.isInteger(port) && Number(port) > 0 && Number(port) < 65_536) return [];
  return [invalidField(field, port, 'must be between 1 and 65535, inclusive')];
}

/** A number, or the name of a port of the pods. */
function validateTarget(target: unknown, field: string): FieldError[] {
  if (typeof target !== 'string') return target === undefined ? [] : validatePort(target, field);
  const isName = target.length <= 15 && nameProblem(target, 'label') === undefined;
  return isName ? [] : [invalidField(field, target, 'must be the name of a port: up to 15 letters, digits and "-"')];
}
