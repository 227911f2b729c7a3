import { fieldsOf } from './json-fields.ts';

export interface FieldProblem {
  /** `spec.template.spec.domain.cpu.cores` */
  readonly field: string;
  readonly message: string;
}

export interface Refusal {
  readonly message: string;
  readonly fields: readonly FieldProblem[];
}

/** Of a Status of the API, or of what the page's server says. */
export function refusalOf(body: unknown): Refusal {
  const { message = '', hint, details } = fieldsOf(body);
  const { causes } = fieldsOf(details);
  const fields = (Array.isArray(causes) ? causes : [])
    .map(fieldsOf)
    .filter(({ field }) => typeof field === 'string' && field !== '')
    .map((cause) => ({ field: String(cause.field), message: String(cause.message ?? cause.reason ?? '') }));
  return { message: hint === undefined ? String(message) : `${message}: ${hint}`, fields };
}
