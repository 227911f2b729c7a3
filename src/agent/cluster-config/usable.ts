import { isRecord, memberAt } from '../../base/index.ts';
import { readLabelSelector } from './label-selector.ts';

type Check = (value: unknown) => boolean;

const isWhole: Check = (value) => typeof value === 'number' && Number.isInteger(value) && value >= 0;
const isPositive: Check = (value) => typeof value === 'number' && value > 0 && Number.isFinite(value);
const oneOf =
  (...words: readonly string[]): Check =>
  (value) =>
    typeof value === 'string' && words.includes(value);

/** Fields whose default, taken silently for a value that cannot be used, would be worse than the last good configuration. */
const checks: readonly (readonly [path: string, isUsable: Check])[] = [
  ['smbios', (value) => isRecord(value) && Object.values(value).every((text) => typeof text === 'string')],
  ['virtualMachineOptions', isRecord],
  ['memBalloonStatsPeriod', (value) => isWhole(value) && Number(value) <= 0xffff_ffff],
  ['imagePullPolicy', oneOf('', 'Always', 'IfNotPresent', 'Never')],
  ['network.defaultNetworkInterface', oneOf('', 'bridge', 'slirp', 'masquerade')],
  ['developerConfiguration', isRecord],
  ['developerConfiguration.featureGates', Array.isArray],
  ['developerConfiguration.disabledFeatureGates', Array.isArray],
  ['developerConfiguration.memoryOvercommit', isPositive],
  ['developerConfiguration.cpuAllocationRatio', isPositive],
  ['developerConfiguration.minimumReservePVCBytes', isWhole],
  [
    'developerConfiguration.pvcTolerateLessSpaceUpToPercent',
    (value) => typeof value === 'number' && value >= 0 && value <= 100,
  ],
  ['developerConfiguration.logVerbosity', isRecord],
  ['developerConfiguration.logVerbosity.virtHandler', isWhole],
  [
    'developerConfiguration.logVerbosity.nodeVerbosity',
    (value) => isRecord(value) && Object.values(value).every(isWhole),
  ],
  ['handlerConfiguration.restClient.rateLimiter.tokenBucketRateLimiter', isRecord],
  [
    'handlerConfiguration.restClient.rateLimiter.tokenBucketRateLimiter.qps',
    (value) => value === 0 || isPositive(value),
  ],
  ['handlerConfiguration.restClient.rateLimiter.tokenBucketRateLimiter.burst', isWhole],
  ['obsoleteCPUModels', isRecord],
  ['ksmConfiguration', isRecord],
  ['ksmConfiguration.nodeLabelSelector', (value) => readLabelSelector(value) !== undefined],
];

/** Paths of fields that are given and cannot be used. Absent and null are never wrong. */
export function unusableFields(configuration: unknown): string[] {
  if (configuration !== undefined && configuration !== null && !isRecord(configuration)) return ['configuration'];
  return checks.flatMap(([path, isUsable]) => {
    const value = memberAt(configuration, ...path.split('.'));
    return value === undefined || isUsable(value) ? [] : [path];
  });
}
