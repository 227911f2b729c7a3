import { isRecord } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { requiredField } from '../errors.ts';
import { flag, integer, mapOf, objectOf, oneOf, quantity, text } from './shape.ts';

const labels = mapOf(text);

/** What controller and agents read; a value that they would pass over in silence is refused. */
const spec = objectOf({
  selectors: objectOf({ namespaceSelector: labels, virtualMachineInstanceSelector: labels }),
  allowAutoConverge: flag,
  allowPostCopy: flag,
  allowWorkloadDisruption: flag,
  bandwidthPerMigration: quantity,
  completionTimeoutPerGiB: integer(0),
  maxDowntimeMs: integer(0),
  experimental: objectOf({
    compression: oneOf('none', 'zstd'),
    stallDetector: objectOf({
      stallMargin: integer(0),
      stallProgressTimeout: integer(0),
      switchoverTimeout: integer(0),
      ewmaAlpha: quantity,
      precopyPossibleFactor: quantity,
      patienceWindowDecayFactor: quantity,
      searchLocalMinima: flag,
      completionTimeoutFactor: quantity,
    }),
  }),
});

/** What upstream's definition and webhook say of migration policies (pkg/virt-api/webhooks/validating-webhook/admitters/migrationpolicy-admitter.go). */
export const migrationPolicyAdmission: Admission = {
  validate(policy) {
    if (!isRecord(policy.spec)) return [requiredField('spec')];
    const missing = isRecord(policy.spec.selectors) ? [] : [requiredField('spec.selectors')];
    return [...missing, ...spec(policy.spec, 'spec')];
  },
};
