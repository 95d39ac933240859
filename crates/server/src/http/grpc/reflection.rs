//! The standard service for reflection: what services and messages there are. It shows what the published `.proto` files show, so it
//! needs no credential, as the OpenAPI document needs none.

use super::super::http2_path::Http2Body;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use stockhold_grpc::DESCRIPTORS;
use tonic_reflection::server::Builder;
use tower_service::Service;

const SERVICE: &str = "/grpc.reflection.v1.ServerReflection/";

pub(super) fn is_for(path: &str) -> bool {
    path.starts_with(SERVICE)
}

pub(super) async fn respond(request: Request<Incoming>) -> Response<Http2Body> {
    let built = Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1();
    match built {
        Ok(mut service) => match service.call(request).await {
            Ok(response) => response.map(Http2Body::Tonic),
            Err(never) => match never {},
        },
        Err(error) => {
            tracing::error!(%error, "the descriptors of gRPC can't be read");
            let mut response = Response::new(Http2Body::Whole(None));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}
