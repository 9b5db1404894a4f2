/**
 * Where a trace is read from: the service, at the owner's address or at a share link's, or a file that was opened.
 * A source has `address` (null for a file), `events(epoch, after)` and `view(slug, query, options)`.
 */

import * as api from "./api.js";
import { fetchView } from "./views.js";

/** The service: `address` is "responses/<id>" or "shared/<token>". */
export function remote(address) {
  return {
    address,
    events: (epoch, after) => api.getEvents(address, epoch, after),
    view: (slug, query, options) => fetchView(address, slug, query, options),
  };
}

/** The source of a record; one of the reader's own needs none beside its id. */
export function sourceOf(record) {
  return record.source ?? remote(`responses/${record.id}`);
}
