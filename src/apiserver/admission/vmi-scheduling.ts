import { isLabelKey, isLabelValue } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { type FieldError, invalidField, requiredField, unsupportedField } from '../errors.ts';
import { at, type JsonObject, objectsAt } from '../object.ts';

/**
 * The fields of a VMI that its launcher's pod gets as they are, by the rules of pods (pkg/apis/core/validation of Kubernetes): a VMI whose pod can never be
 * made is refused, as upstream's webhook does.
 */
export function checkScheduling(spec: JsonObject, field: string): FieldError[] {
  return [
    ...checkNodeSelector(spec, `${field}.nodeSelector`),
    ...objectsAt(spec, 'tolerations').flatMap((each, index) => checkToleration(each, `${field}.tolerations[${index}]`)),
    ...checkNodeAffinity(spec, field),
    ...objectsAt(spec, 'topologySpreadConstraints').flatMap((each, index) =>
      checkSpread(each, `${field}.topologySpreadConstraints[${index}]`),
    ),
  ];
}

function checkNodeSelector({ nodeSelector }: JsonObject, field: string): FieldError[] {
  if (!isRecord(nodeSelector)) return [];
  return Object.entries(nodeSelector).flatMap(([key, value]) => {
    if (!isLabelKey(key)) return [invalidField(field, key, 'is no label key')];
    return isLabelValue(String(value)) ? [] : [invalidField(`${field}.${key}`, value, 'is no label value')];
  });
}

const operators = ['Equal', 'Exists'];
const effects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

function checkToleration({ key, operator, value, effect }: JsonObject, field: string): FieldError[] {
  const problems: FieldError[] = [];
  if (operator && !operators.includes(String(operator))) {
    problems.push(unsupportedField(`${field}.operator`, operator, operators));
  } else if (operator === 'Exists' && value) {
    problems.push(invalidField(`${field}.value`, value, 'must be empty when `operator` is Exists'));
  } else if (!key && operator !== 'Exists') {
    problems.push(invalidField(`${field}.operator`, operator ?? '', 'must be Exists when `key` is empty'));
  }
  if (key && !isLabelKey(String(key))) problems.push(invalidField(`${field}.key`, key, 'is no label key'));
  if (effect && !effects.includes(String(effect))) {
    problems.push(unsupportedField(`${field}.effect`, effect, effects));
  }
  return problems;
}

function checkNodeAffinity(spec: JsonObject, field: string): FieldError[] {
  const path = ['affinity', 'nodeAffinity', 'requiredDuringSchedulingIgnoredDuringExecution'];
  if (!isRecord(at(spec, ...path)) || objectsAt(spec, ...path, 'nodeSelectorTerms').length > 0) return [];
  const why = 'must have at least one node selector term';
  return [requiredField(`${field}.${path.join('.')}.nodeSelectorTerms`, why)];
}

const reactions = ['DoNotSchedule', 'ScheduleAnyway'];

function checkSpread({ maxSkew, topologyKey, whenUnsatisfiable }: JsonObject, field: string): FieldError[] {
  return [
    ...(Number(maxSkew) > 0 ? [] : [invalidField(`${field}.maxSkew`, maxSkew, 'must be greater than zero')]),
    ...(topologyKey ? [] : [requiredField(`${field}.topologyKey`, 'can not be empty')]),
    ...(reactions.includes(String(whenUnsatisfiable))
      ? []
      : [unsupportedField(`${field}.whenUnsatisfiable`, whenUnsatisfiable, reactions)]),
  ];
}
