/** An answer in words. */
export class Rejection extends Error {
  readonly httpStatus: number;

  constructor(httpStatus: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.httpStatus = httpStatus;
  }
}
