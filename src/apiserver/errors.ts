import type { StatusObject } from '../api/index.ts';
import { CodedError, shortened } from '../base/index.ts';

const table = {
  BAD_REQUEST: [400, 'BadRequest'],
  UNAUTHORIZED: [401, 'Unauthorized'],
  FORBIDDEN: [403, 'Forbidden'],
  NOT_FOUND: [404, 'NotFound'],
  METHOD_NOT_ALLOWED: [405, 'MethodNotAllowed'],
  NOT_ACCEPTABLE: [406, 'NotAcceptable'],
  ALREADY_EXISTS: [409, 'AlreadyExists'],
  CONFLICT: [409, 'Conflict'],
  EXPIRED: [410, 'Expired'],
  TOO_LARGE: [413, 'RequestEntityTooLarge'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'UnsupportedMediaType'],
  INVALID: [422, 'Invalid'],
  TOO_MANY_REQUESTS: [429, 'TooManyRequests'],
  INTERNAL_ERROR: [500, 'InternalError'],
  NOT_IMPLEMENTED: [501, 'NotImplemented'],
  SERVICE_UNAVAILABLE: [503, 'ServiceUnavailable'],
  TIMEOUT: [504, 'Timeout'],
} as const satisfies Record<string, readonly [number, string]>;

export type ApiErrorCode = keyof typeof table;

export interface Cause {
  readonly reason: string;
  readonly message: string;
  readonly field?: string;
}

/** What a Status says besides its message. */
export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly Cause[];
  readonly retryAfterSeconds?: number;
}

/** Most messages repeat something of the request, which may have 3 MiB: answers and logs stay small. */
const maxMessageLength = 8_192;
/** A list with a hundred thousand wrong elements need not be reported element by element. */
const maxCauses = 100;

/** A refusal; becomes a `Status` object with the code and reason Kubernetes uses. */
export class ApiError extends CodedError<ApiErrorCode> {
  readonly details: StatusDetails | undefined;
  /** Continue token for a list that outlived its snapshot. */
  readonly continueToken: string | undefined;

  constructor(
    code: ApiErrorCode,
    message: string,
    more: { details?: StatusDetails; continueToken?: string; cause?: unknown } = {},
  ) {
    super(code, shortened(message, maxMessageLength), more.cause === undefined ? undefined : { cause: more.cause });
    this.details = more.details;
    this.continueToken = more.continueToken;
  }

  get httpStatus(): number {
    return table[this.code][0];
  }

  toStatus(): StatusObject & { metadata: object } {
    const [code, reason] = table[this.code];
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: this.continueToken === undefined ? {} : { continue: this.continueToken },
      status: 'Failure',
      message: this.message,
      reason,
      ...(this.details ? { details: { ...this.details } } : {}),
      code,
    };
  }
}

/** A resource as messages name it: `pods`, `virtualmachines.kubevirt.io`. */
export interface Named {
  readonly group: string;
  readonly resource: string;
  readonly kind: string;
}

export function qualified(type: Named): string {
  return type.group === '' ? type.resource : `${type.resource}.${type.group}`;
}

function detailsOf(type: Named, name: string): StatusDetails {
  return { name, ...(type.group === '' ? {} : { group: type.group }), kind: type.resource };
}

export function notFound(type: Named, name: string): ApiError {
  return new ApiError('NOT_FOUND', `${qualified(type)} "${name}" not found`, { details: detailsOf(type, name) });
}

export function alreadyExists(type: Named, name: string): ApiError {
  return new ApiError('ALREADY_EXISTS', `${qualified(type)} "${name}" already exists`, {
    details: detailsOf(type, name),
  });
}

export function conflict(type: Named, name: string, why: string): ApiError {
  return new ApiError('CONFLICT', `Operation cannot be fulfilled on ${qualified(type)} "${name}": ${why}`, {
    details: detailsOf(type, name),
  });
}

export const modifiedMessage =
  'the object has been modified; please apply your changes to the latest version and try again';

/** Fields that others own, and that an apply would change. */
export function fieldConflict(fields: readonly { readonly owner: string; readonly field: string }[]): ApiError {
  const owners = [...new Set(fields.map(({ owner }) => owner))].sort();
  const lines = owners.flatMap((owner) => [
    `conflicts with ${owner}:`,
    ...fields.filter((each) => each.owner === owner).map(({ field }) => `- ${field}`),
  ]);
  const [only] = fields;
  const text =
    fields.length === 1 && only
      ? `Apply failed with 1 conflict: conflict with ${only.owner}: ${only.field}`
      : `Apply failed with ${fields.length} conflicts: ${lines.join('\n')}`;
  const causes = fields.slice(0, maxCauses).map(({ owner, field }) => ({
    reason: 'FieldManagerConflict',
    message: `conflict with ${owner}`,
    field,
  }));
  return new ApiError('CONFLICT', text, { details: { causes } });
}

export function forbidden(type: Named, name: string, why: string): ApiError {
  return new ApiError('FORBIDDEN', `${qualified(type)} "${name}" is forbidden: ${why}`, {
    details: detailsOf(type, name),
  });
}

export function badRequest(message: string, cause?: unknown): ApiError {
  return new ApiError('BAD_REQUEST', message, { cause });
}

/** As the API server says what a webhook of KubeVirt has refused. */
export function deniedMessage({ webhook, message }: { readonly webhook: string; readonly message: string }): string {
  return `admission webhook "${webhook}" denied the request: ${message}`;
}

/** One thing wrong with one field. */
export interface FieldError {
  readonly field: string;
  readonly reason:
    | 'FieldValueRequired'
    | 'FieldValueInvalid'
    | 'FieldValueTypeInvalid'
    | 'FieldValueTooLong'
    | 'FieldValueTooMany'
    | 'FieldValueNotFound'
    | 'FieldValueNotSupported'
    | 'FieldValueDuplicate'
    | 'FieldValueForbidden';
  readonly message: string;
}

export function invalid(type: Named, name: string, errors: readonly FieldError[]): ApiError {
  const causes = errors.slice(0, maxCauses);
  const texts = causes.map(({ field, message }) => `${field}: ${message}`);
  if (errors.length > causes.length) texts.push(`and ${errors.length - causes.length} more`);
  const what = type.group === '' ? type.kind : `${type.kind}.${type.group}`;
  const text = texts.length === 1 ? texts[0] : `[${texts.join(', ')}]`;
  const { kind: _kind, ...details } = detailsOf(type, name);
  return new ApiError('INVALID', `${what} "${name}" is invalid: ${text}`, {
    details: { ...details, kind: type.kind, causes },
  });
}

export function requiredField(field: string, text = ''): FieldError {
  return { field, reason: 'FieldValueRequired', message: text === '' ? 'Required value' : `Required value: ${text}` };
}

export function invalidField(field: string, value: unknown, why: string): FieldError {
  return { field, reason: 'FieldValueInvalid', message: `Invalid value: ${shown(value)}: ${why}` };
}

/** A contradiction in the very words of KubeVirt's webhook, by which people search for it. */
export function refusedField(field: string, words: string): FieldError {
  return { field, reason: 'FieldValueInvalid', message: words };
}

/** A value as a message repeats it: not the whole of what a client sent. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'undefined';
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}

export function unsupportedField(field: string, value: unknown, allowed: readonly string[]): FieldError {
  const list = allowed.map((item) => `"${item}"`).join(', ');
  return {
    field,
    reason: 'FieldValueNotSupported',
    message: `Unsupported value: ${shown(value)}: supported values: ${list}`,
  };
}

export function duplicateField(field: string, value: unknown): FieldError {
  return { field, reason: 'FieldValueDuplicate', message: `Duplicate value: ${shown(value)}` };
}

export function forbiddenField(field: string, why: string): FieldError {
  return { field, reason: 'FieldValueForbidden', message: `Forbidden: ${why}` };
}

/** Query parameters that contradict each other, as Kubernetes refuses them. */
export function invalidOptions(
  kind: 'ListOptions' | 'CreateOptions' | 'UpdateOptions' | 'PatchOptions' | 'DeleteOptions',
  error: FieldError,
): ApiError {
  return invalid({ group: 'meta.k8s.io', resource: kind, kind }, '', [error]);
}
