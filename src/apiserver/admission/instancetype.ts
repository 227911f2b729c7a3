import { InstancetypeError, type MatcherField, readSpec } from '../../instancetype/index.ts';
import type { Admission } from '../api-type.ts';
import type { FieldError } from '../errors.ts';

/** What no VM could be made with is refused when it is written. */
function admissionOf(field: MatcherField): Admission {
  return { validate: ({ spec }) => problemsOf(field, spec) };
}

export const instancetypeAdmission = admissionOf('instancetype');
export const preferenceAdmission = admissionOf('preference');

function problemsOf(field: MatcherField, spec: unknown): FieldError[] {
  try {
    readSpec(field, spec);
    return [];
  } catch (error) {
    if (!(error instanceof InstancetypeError)) throw error;
    return [{ field: 'spec', reason: 'FieldValueInvalid', message: error.message }];
  }
}
