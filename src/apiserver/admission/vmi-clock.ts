import { type FieldError, invalidField } from '../errors.ts';
import { at, type JsonObject, stringAt } from '../object.ts';
import { isTimezone } from './timezones.ts';

/** A guest would start all the same: QEMU takes a zone that it does not know for UTC. */
export function checkClock(spec: JsonObject, field: string): FieldError[] {
  const timezone = stringAt(at(spec, 'domain', 'clock'), 'timezone') ?? '';
  if (timezone === '' || isTimezone(timezone)) return [];
  return [invalidField(`${field}.domain.clock.timezone`, timezone, 'must be one such as Europe/Berlin')];
}
