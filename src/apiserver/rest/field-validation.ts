import type { Response } from 'express';
import { shortened } from '../../base/index.ts';
import { invalidOptions, unsupportedField } from '../errors.ts';
import type { FieldValidation } from '../objects/index.ts';
import { duplicateMembers } from '../schema/index.ts';
import type { ResourceCall } from './api-context.ts';
import { isJson } from './body.ts';

const directives = ['Ignore', 'Strict', 'Warn'] as const;
/** A client reads as much of headers as it likes, Node.js 16 KiB. */
const mostWarningBytes = 4096;
const longestWarning = 256;

/** What the request wants to know of fields that are not kept; without a word of its own it is warned. Throws ApiError INVALID. */
export function fieldValidationOf(
  call: ResourceCall,
  response: Response,
  options: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions',
): FieldValidation {
  const { fieldValidation: asked = '' } = call.query;
  const directive = asked === '' ? 'Warn' : directives.find((name) => name === asked);
  if (!directive) throw invalidOptions(options, unsupportedField('fieldValidation', asked, ['', ...directives]));
  const isRead = directive !== 'Ignore' && isJson(call.contentType);
  const warnings = new Warnings(response);
  return {
    directive,
    duplicates: isRead ? duplicateMembers(call.body.toString('utf8')) : [],
    warn: (text) => warnings.add(text),
  };
}

/** Headers that kubectl prints and client libraries log (RFC 7234, 5.5). */
class Warnings {
  readonly #response: Response;
  #bytes = 0;

  constructor(response: Response) {
    this.#response = response;
  }

  add(text: string): void {
    const plain = shortened(text, longestWarning)
      .replace(/[^ -~]/g, '?')
      .replaceAll('\\', '\\\\')
      .replaceAll('"', '\\"');
    this.#bytes += plain.length;
    if (this.#bytes <= mostWarningBytes) this.#response.append('Warning', `299 - "${plain}"`);
  }
}
