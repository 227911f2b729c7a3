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
    .map(({ field, message: text, reason }) => ({
      field: String(field),
      message: readable(String(field), String(text ?? reason ?? '')),
    }));
  return { message: hint === undefined ? String(message) : `${message}: ${hint}`, fields };
}

/** Of Kubernetes' own expression for quantities, which nobody reads. */
const quantityPattern = '([KMGTPE]i)|[numkMGTPE]';

/** The API says an expression that a text should match; of a quantity it is said in words. */
function readable(field: string, message: string): string {
  const [before, pattern] = message.split(`${field} in body should match `);
  if (before === undefined || !pattern?.includes(quantityPattern)) return message;
  return `${before}write a number with its unit, such as 512Mi or 4Gi`;
}
